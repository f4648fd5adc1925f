"""The arrows between the rooms of the house point one way; this test owns the table that says which."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ninelives

PACKAGE = Path(ninelives.__file__).parent

FOUNDATION = {"errors", "events", "clock", "native", "host"}
SIDES = FOUNDATION | {"spec", "transport", "supervise"}

MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "events": set(),
    "clock": set(),
    "native": set(),
    "host": {"errors"},
    "view": {"events"},
    "spec": FOUNDATION,
    "transport": FOUNDATION | {"spec"},
    "supervise": FOUNDATION | {"spec"},
    "worker": FOUNDATION | {"spec", "transport", "supervise.child"},
    "pool": SIDES | {"view"},
    "sims": FOUNDATION | {"spec"},
    "adapters": SIDES | {"pool"},
    "train": SIDES | {"pool", "adapters"},
    "testing": SIDES | {"worker", "pool", "adapters"},
    "console": FOUNDATION | {"spec", "pool", "sims", "view"},
    "__main__": {"cli"},
    "cli": SIDES | {"pool", "adapters", "train", "view"},
}
"""For every room, what it may see beside itself. ``a.b`` allows that one module of a room."""

ALSO = {
    "cli.check": {"testing"},
    "cli.chaos": {"testing"},
    "cli.cores": {"sims"},
    "cli.games": {"sims"},
    "cli.state": {"sims", "console"},
    "cli.play": {"sims", "console"},
    "cli.record": {"sims", "console"},
    "cli.replay": {"sims", "console"},
    "testing.natural": {"sims"},
    "testing.native_misuse": {"sims"},
}
"""Modules that may see more than their room: verbs about emulators, and the checks ``ninelives check`` is about."""


LEVELS: dict[str, list[set[str]]] = {
    "pool": [
        {"batch", "inheritance", "notices", "workers.worker", "workers.fault_budget"},
        {"metrics"},
        {"eventlog"},
        {"resources"},
        {"workers"},
        {"runtime"},
        {"recovery"},
        {"data"},
        {"shutdown"},
        {"startup"},
        {"pool"},
    ],
    "train": [{"config"}, {"saving"}, {"policy"}, {""}],
    "cli": [{"target", "flags", "diagnosis.finding"}, {"reporting"}, {"diagnosis", "bench"}, {""}],
    "sims": [{"emulators.machine", "emulators.systems", "emulators.user_paths"}, {"libretro"}, {"emulators"}, {""}],
}
"""Inside rooms that have rooms of their own: lowest first. A module sees its own level and those below it."""

IN_C = {
    ("worker/_loop.c", "spec.arrays"),  # BadValueError, which tells bad data from a bug
}
"""Modules that native code imports. It offers no function to other native code by capsule."""


def module_name(file: Path, root: Path) -> str:
    """The dotted name below the package: ``pool.crew``, or ``pool`` for a room's ``__init__``."""
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(file: Path, root: Path) -> Iterator[tuple[int, str]]:
    """Every import of the package in a file, at any depth and also those for type checkers only, below the package."""
    here = ["ninelives", *file.relative_to(root).parts[:-1]]
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{source}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name.startswith("ninelives."):
                yield node.lineno, name.removeprefix("ninelives.")


def is_allowed(module: str, target: str) -> bool:
    room = module.split(".")[0]
    allowed = {room} | MAY_IMPORT[room] | ALSO.get(module, set())
    return any(target == seen or target.startswith(seen + ".") for seen in allowed)


def upward_arrows(root: Path) -> list[str]:
    return [
        f"{file.relative_to(root)}:{line} imports ninelives.{target}"
        for file in sorted(root.rglob("*.py"))
        if file != root / "__init__.py"
        for line, target in imports_of(file, root)
        if not is_allowed(module_name(file, root), target)
    ]


def test_no_import_points_up():
    assert upward_arrows(PACKAGE) == []


def level_of(module: str) -> int:
    room, _, inside = module.partition(".")
    fits = [
        (len(prefix), level)
        for level, prefixes in enumerate(LEVELS[room])
        for prefix in prefixes
        if not prefix or inside == prefix or inside.startswith(prefix + ".")
    ]
    assert fits, f"{module} has no level in LEVELS[{room!r}]"
    return max(fits)[1]


def upward_inside(root: Path) -> list[str]:
    """Imports between the parts of one room that point from a lower level to a higher one."""
    modules = {module_name(file, root) for file in root.rglob("*.py")}
    return [
        f"{module} imports {target}"
        for file in sorted(root.rglob("*.py"))
        if (module := module_name(file, root)).count(".") and module.split(".")[0] in LEVELS
        for _, name in imports_of(file, root)
        if (target := name if name in modules else name.rpartition(".")[0]).split(".")[0] == module.split(".")[0]
        if target.count(".") and level_of(target) > level_of(module)
    ]


def test_no_import_points_up_inside_a_room():
    assert upward_inside(PACKAGE) == []


def test_an_import_that_points_up_inside_a_room_would_be_found(tmp_path: Path):
    for file, line in (
        ("workers/launcher.py", "from ninelives.pool.data.gather import Gatherer"),
        ("data/gather.py", ""),
    ):
        path = tmp_path / "pool" / file
        path.parent.mkdir(parents=True)
        path.write_text(line)
    assert upward_inside(tmp_path) == ["pool.workers.launcher imports pool.data.gather"]


def test_native_code_imports_what_the_table_says_and_includes_nothing_from_above():
    found = set()
    for file in sorted([*PACKAGE.rglob("*.c"), *PACKAGE.rglob("*.h")]):
        text, name = file.read_text(), file.relative_to(PACKAGE).as_posix()
        assert "PyCapsule_New" not in text, f"{name} hands functions to other native code: declare it here"
        found |= {(name, module) for module in re.findall(r'PyImport_ImportModule\("ninelives\.([\w.]+)"\)', text)}
        for header in re.findall(r'#include "([\w.]+)"', text):
            (home,) = PACKAGE.rglob(header)
            room, above = file.relative_to(PACKAGE).parts[0], home.relative_to(PACKAGE).parts[0]
            assert room == above or above in MAY_IMPORT[room], f"{name} includes {header} of {above}"
    assert found == IN_C


def test_every_room_has_a_rule():
    rooms = {module_name(file, PACKAGE).split(".")[0] for file in PACKAGE.rglob("*.py")} - {""}
    assert rooms <= set(MAY_IMPORT)


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("pool/plain.py", "import ninelives.worker.loop"),
        ("pool/named.py", "from ninelives import worker"),
        ("pool/inner.py", "def late():\n    from ninelives.worker.loop import PyLoop"),
        ("spec/dots.py", "from ..pool import pool"),
        ("worker/other.py", "from ninelives.supervise.keeper import keep"),
        ("transport/side.py", "from ninelives.supervise import host"),
        ("view/more.py", "from ninelives.errors import Fault"),
        ("cli/doctor.py", "from ninelives.testing import zoo"),
    ],
)
def test_an_arrow_that_points_up_is_found_however_it_is_written(tmp_path: Path, file: str, line: str):
    path = tmp_path / file
    path.parent.mkdir()
    path.write_text(line)
    assert len(upward_arrows(tmp_path)) == 1


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("cli/check.py", "from ninelives.testing import zoo"),
        ("worker/main.py", "from ninelives.supervise.child import DUMP_SIGNAL"),
        ("pool/log.py", "from ninelives.view.jsonl import JsonlSink"),
    ],
)
def test_the_exceptions_of_the_table_are_allowed(tmp_path: Path, file: str, line: str):
    path = tmp_path / file
    path.parent.mkdir()
    path.write_text(line)
    assert upward_arrows(tmp_path) == []


def test_the_package_itself_imports_only_the_list_of_games():
    body = ast.parse((PACKAGE / "__init__.py").read_text()).body
    at_run_time = [ast.unparse(node) for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [line for line in at_run_time if "ninelives" in line] == [
        "from ninelives.sims.games.registry import register as _register_games"
    ]


def test_importing_the_package_registers_the_games():
    code = "import ninelives, gymnasium; print(*[name for name in gymnasium.registry if name.startswith('ninelives/')])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert {"ninelives/Errand-v0", "ninelives/Lantern-v0"} <= set(result.stdout.split())


@pytest.mark.parametrize(
    ("statement", "unwanted"),
    [
        ("import ninelives", "torch stable_baselines3 cloudpickle cv2 ninelives.sims.emulators"),
        ("import ninelives; ninelives.WorkerError", "torch cv2 ninelives.pool"),
        ("import ninelives; ninelives.Pool", "torch stable_baselines3 rich tyro ninelives.worker ninelives.testing"),
        (
            "import ninelives.worker.main",
            "torch rich tyro ninelives.pool ninelives.sims.atari ale_py",
        ),
        ("import ninelives.supervise.keeper", "torch cloudpickle ninelives.pool ninelives.worker"),
    ],
)
def test_a_fresh_interpreter_loads_only_what_is_used(statement: str, unwanted: str):
    code = f"{statement}\nimport sys\nprint(*sorted({set(unwanted.split())!r} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.strip() == ""
