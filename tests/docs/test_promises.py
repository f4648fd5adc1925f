"""What the documentation mentions exists, and what a user needs is documented."""

import ast
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Collection
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

import ninelives
from ninelives import errors, events
from ninelives.pool.batch import Batch, Episodes
from ninelives.pool.metrics import PoolMetrics, SlotMetrics
from ninelives.testing.faults import BREAKS
from ninelives.train.config.classes import LogConfig, NetConfig, NormaliseConfig, PoolConfig, PpoConfig, TrainConfig

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *DOCS]
EVERYTHING = "\n".join(page.read_text() for page in DOCS)
OF_THE_TRAINER = {"training.md", "ppo.md", "running.md", "resume.md", "settings.md"}
"""Pages whose tables hold settings of the trainer too, not only those of a pool."""

SECTIONS = {"ppo": PpoConfig, "net": NetConfig, "normalise": NormaliseConfig, "pool": PoolConfig, "log": LogConfig}

LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
SETTINGS_TABLE = re.compile(r"^\| setting \| default \| meaning \|\n((?:\|.*\n)+)", re.MULTILINE)
SETTING_ROW = re.compile(r"^\| `(\w+)` \| (?:`([^`]+)`|required) \|", re.MULTILINE)
COMMAND = re.compile(r"(?:^|[`$(] ?)ninelives ([a-z]+)\b", re.MULTILINE)
MAKE = re.compile(r"(?<!:)\bmake ((?:[a-z][a-z-]* ?)+)")


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def code_spans(text: str) -> str:
    """Only what is set as code: inline spans and console blocks."""
    blocks = re.findall(r"```(?:console|sh|bash)\n(.*?)```", text, re.DOTALL)
    spans = re.findall(r"(?<!`)`([^`\n]+)`(?!`)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    return "\n".join([*blocks, *spans])


def documented_verbs() -> list[str]:
    return sorted({verb for page in PAGES for verb in COMMAND.findall(code_spans(page.read_text()))})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_internal_link_leads_somewhere(page: Path):
    for target in LINK.findall(page.read_text()):
        if target.startswith(("http:", "https:", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(file), f"{page.name} links to {target}: no such heading"


def test_every_page_is_reachable_from_the_index_and_begins_with_a_picture():
    index = ROOT / "docs" / "index.md"
    linked = set(LINK.findall(index.read_text()))
    for page in DOCS:
        assert page == index or page.name in linked
        assert re.match(r"# [^\n]+\n\n```\n", page.read_text()), f"{page.name} does not begin with its picture"


def test_every_page_is_in_the_navigation_once():
    nav = re.findall(r"\b(\w+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(nav) == [page.name for page in DOCS]


def test_pictures_are_used_and_small():
    pictures = [path for path in (ROOT / "docs" / "img").iterdir() if path.suffix != ".py"]
    assert [path.name for path in pictures if f"img/{path.name}" not in EVERYTHING] == []
    assert sum(path.stat().st_size for path in pictures) < 1_500_000


def settings_of(part: str) -> dict[str, str]:
    """Names and defaults in the tables of settings of a page or a part of one."""
    rows = [row for table in SETTINGS_TABLE.findall(part) for row in SETTING_ROW.findall(table)]
    assert len(rows) == len(dict(rows)), "a setting is listed twice"
    return dict(rows)


def pool_default(name: str) -> object:
    return getattr(ninelives.PoolOptions.of({}), name)


def test_the_settings_page_has_every_setting_of_a_pool_with_its_default():
    pool = (ROOT / "docs" / "settings.md").read_text().partition("\n## Training\n")[0]
    documented = settings_of(pool)
    assert sorted(documented) == sorted(field.name for field in fields(ninelives.PoolOptions))
    for name, default in documented.items():
        given = ninelives.PoolOptions.of({name: ast.literal_eval(default)})
        assert getattr(given, name) == pool_default(name), f"{name} is documented as {default}"


def test_other_pages_agree_on_the_settings_of_a_pool():
    for page in DOCS:
        if page.name in OF_THE_TRAINER:
            continue
        for name, default in settings_of(page.read_text()).items():
            given = ninelives.PoolOptions.of({name: ast.literal_eval(default)})
            assert getattr(given, name) == pool_default(name), f"{page.name}: {name} is documented as {default}"


def test_the_settings_page_has_every_setting_of_a_run_with_its_default():
    run = (ROOT / "docs" / "settings.md").read_text().partition("\n## Training\n")[2]
    top, *parts = re.split(r"^### `(\w+)`$", run, flags=re.MULTILINE)
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    assert set(sections) == set(SECTIONS)
    assert_documented(top, TrainConfig, leave_out=set(SECTIONS))
    for name, part in sections.items():
        assert_documented(part, SECTIONS[name])


def assert_documented(part: str, kind: type, leave_out: Collection[str] = ()) -> None:
    documented = settings_of(part)
    known = {field.name: field for field in fields(kind) if field.name not in leave_out}
    assert sorted(documented) == sorted(known), kind.__name__
    for name, default in documented.items():
        factory = known[name].default_factory
        true = known[name].default if factory is MISSING else factory()
        assert (ast.literal_eval(default) if default else MISSING) == true, f"{name} is documented as {default}"


@pytest.mark.parametrize("record", [Batch, Episodes, errors.Fault, PoolMetrics, SlotMetrics], ids=lambda r: r.__name__)
def test_every_field_a_user_reads_is_documented(record: type):
    missing = [field.name for field in fields(record) if f"`{field.name}`" not in EVERYTHING]
    assert missing == []


def test_exactly_the_events_that_are_emitted_are_documented():
    kinds = [name for name, kind in vars(events).items() if inspect.isclass(kind) and issubclass(kind, events.Event)]
    source = "\n".join(file.read_text() for file in (ROOT / "src" / "ninelives" / "pool").rglob("*.py"))
    emitted = {name for name in kinds if re.search(rf"\b{name}\(", source)}
    rows = re.findall(r"^\| `([A-Z]\w+)` \|", (ROOT / "docs" / "diagnosis.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(emitted)


def test_every_error_is_in_the_drawn_tree():
    kinds = [name for name, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, Exception)]
    page = (ROOT / "docs" / "faults.md").read_text()
    assert [name for name in kinds if not re.search(rf"^ *{name} *", page, re.MULTILINE)] == []


def test_every_animal_of_the_zoo_is_documented():
    page = (ROOT / "docs" / "testing.md").read_text()
    assert [name for name in BREAKS if f"`{name}`" not in page] == []


def test_the_documentation_names_commands():
    assert {"info", "doctor", "check", "benchmark"} <= set(documented_verbs())


def test_every_documented_command_exists():
    command = Path(sys.executable).with_name("ninelives")
    result = subprocess.run([command, "--help"], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    known = re.search(r"\{([\w,]+)\}", result.stdout)
    assert known is not None
    assert set(documented_verbs()) <= set(known[1].split(","))


def test_every_documented_make_verb_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {verb for page in PAGES for line in MAKE.findall(code_spans(page.read_text())) for verb in line.split()}
    assert {"demo", "test", "check", "bench", "docs", "dist", "setup"} <= named <= targets


def test_the_ci_script_does_what_the_readme_says():
    script = (ROOT / ".ci" / "run").read_text()
    assert script.splitlines()[-1] == "make check test"
    assert "make check test" in (ROOT / "README.md").read_text()


def test_every_pinned_requirement_is_pinned_exactly():
    lines = [line.split("#")[0].strip() for line in (ROOT / "constraints.txt").read_text().splitlines()]
    pins = [line for line in lines if line]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", pin) for pin in pins)
    assert "torch" in {pin.split("==")[0] for pin in pins}


def test_every_extra_that_is_named_exists():
    known = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    texts = [page.read_text() for page in (*PAGES, *(ROOT / "src").rglob("*.py"))]
    named = {
        extra
        for text in texts
        for found in re.findall(r"ninelives\[([a-z0-9,]+)\]", text)
        for extra in found.split(",")
    }
    assert named <= known


def test_both_halves_of_make_test_are_all_the_tests():
    halves = re.findall(r"-m pytest (?:\$\(\w+\) )?((?:tests/\w+ ?)+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = [folder.removeprefix("tests/") for half in halves for folder in half.split()]
    folders = [path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and list(path.glob("test_*.py"))]
    assert len(halves) == 2
    assert sorted(named) == sorted(folders)


def test_versions_agree():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    newest = re.search(r"^## \[(\d[\w.]*)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert version == ninelives.__version__ == newest[1]


def test_the_old_name_is_mentioned_once():
    git = subprocess.run(["git", "grep", "-i", "rook" + "ery"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    if git.returncode == 128:
        pytest.skip("not a git work tree: nothing to search")
    assert len(git.stdout.splitlines()) == 1
    assert git.stdout.startswith("CHANGELOG.md:")
