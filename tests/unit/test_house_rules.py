"""Rules about the source as a whole that a reader relies on. Each failure lists the offenders."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
PACKAGE = SOURCE / "ninelives"

FILE_LINES = 400
FUNCTION_LINES = 60
C_COLUMNS = 120
CONSTRUCTOR_ARGUMENTS = 6


@cache
def modules() -> dict[str, tuple[Path, ast.Module]]:
    """Every module of the package by its dotted name."""
    return {dotted(path): (path, ast.parse(path.read_text())) for path in sorted(PACKAGE.rglob("*.py"))}


def dotted(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def short(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def refuse(offenders: Iterable[str]) -> None:
    """Fail with one offender per line."""
    lines = sorted(offenders)
    assert not lines, "\n  " + "\n  ".join(lines)


def functions(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def test_no_python_file_is_longer_than_400_lines():
    lengths = {short(path): len(path.read_text().splitlines()) for path, _ in modules().values()}
    refuse(f"{path}: {lines} lines" for path, lines in lengths.items() if lines > FILE_LINES)


def test_no_function_is_longer_than_60_lines():
    refuse(
        f"{short(path)}:{node.lineno} {node.name}: {length(node)} lines"
        for path, tree in modules().values()
        for node in functions(tree)
        if length(node) > FUNCTION_LINES
    )


def test_no_public_class_name_is_defined_twice():
    homes = defaultdict(list)
    for path, tree in modules().values():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(short(path))
    refuse(f"{name}: {', '.join(paths)}" for name, paths in homes.items() if len(paths) > 1)


def test_no_c_line_is_wider_than_120_columns():
    refuse(
        f"{short(path)}:{number}: {len(line)} columns"
        for path in sorted([*PACKAGE.rglob("*.c"), *PACKAGE.rglob("*.h")])
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if len(line.expandtabs(4)) > C_COLUMNS
    )


def test_no_constructor_in_the_pool_takes_more_than_six_arguments():
    refuse(
        f"{short(path)} {node.name}: {count} arguments"
        for name, (path, tree) in modules().items()
        if name.startswith("ninelives.pool")
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and (count := constructor_arguments(node)) > CONSTRUCTOR_ARGUMENTS
    )


def constructor_arguments(node: ast.ClassDef) -> int:
    """Named arguments of ``__init__`` besides ``self``; ``**settings`` that are only passed on do not count."""
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            return len([*method.args.posonlyargs, *method.args.args, *method.args.kwonlyargs]) - 1
    return 0


def test_no_modules_import_each_other_in_a_circle():
    graph = {name: imports_of(name, path, tree) for name, (path, tree) in modules().items()}
    refuse(" <-> ".join(group) for group in circles(graph))


def imports_of(name: str, path: Path, tree: ast.Module) -> set[str]:
    """Modules of the package that are imported when this one is, imports inside functions left out."""
    package = name if path.stem == "__init__" else name.rpartition(".")[0]
    found: set[str] = set()
    for node in at_import(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parents, node.module] if node.module else parents)
            found |= {f"{base}.{alias.name}" if f"{base}.{alias.name}" in modules() else base for alias in node.names}
    return {target for target in found if target in modules() and target != name}


def at_import(tree: ast.AST) -> list[ast.AST]:
    """Statements that run when the module is imported: not those in functions, nor under ``if TYPE_CHECKING``."""
    found: list[ast.AST] = []
    for node in ast.iter_child_nodes(tree):
        is_typing = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        if not is_typing and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            found += [node, *at_import(node)]
    return found


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that reach each other (Tarjan's strongly connected components of more than one module)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for target in sorted(graph[name]):
            if target not in index:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in stack:
                low[name] = min(low[name], index[target])
        if low[name] == index[name]:
            group = [stack.pop()]
            while group[-1] != name:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    for name in graph:
        if name not in index:
            visit(name)
    return found


def test_a_circle_would_be_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
