"""YAML with the line of each value, and without two pitfalls of YAML 1.1.

``3e-4`` is a number, and ``on``, ``off``, ``yes``, ``no`` are text. Must never know a setting.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped, unused-ignore]

from ninelives.errors import ConfigError

LARGEST_FILE = 1 << 20
"""Bytes of a file; a complete configuration has three thousand."""

MOST_VALUES = 10_000
"""Values of a file, with every alias counted as what it stands for: nine lines of aliases can stand for a billion."""

DEEPEST = 50
"""Levels of a file; a configuration has three, and keyword arguments a few more."""


def compose(path: Path) -> Any:
    """The file as nodes with line numbers; None if it is empty.

    Raises:
        ConfigError: the file is missing, is not YAML, or is far larger or deeper than a configuration.
    """
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
        text = data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--config {str(path)!r} cannot be read: {error}") from error
    if len(data) > LARGEST_FILE:
        raise ConfigError(f"{path}: larger than the {LARGEST_FILE:,} bytes that a configuration may have")
    try:
        return _composed(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}{_line_of(error)}: not YAML: {_problem_of(error)}") from error


def is_mapping(node: Any) -> bool:
    """Whether a node consists of ``name: value`` lines."""
    return isinstance(node, yaml.MappingNode)


def plain(node: Any, where: str) -> Any:
    """A node's value.

    Raises:
        ConfigError: the node has an unknown tag, or is no value of its tag, such as a date in month 13.
    """
    loader = _Loader("")
    try:
        return loader.construct_object(node, deep=True)
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{where}: not a YAML value: {_problem_of(error)}") from error
    finally:
        loader.dispose()


def value(text: str, where: str) -> Any:
    """One value from one line of text.

    Raises:
        ConfigError: the text is not YAML.
    """
    try:
        node = _composed(text)
    except yaml.YAMLError as error:
        shown = text if len(text) < 100 else f"{text[:100]}..."
        raise ConfigError(f"{where}: {shown!r} is not a YAML value: {_problem_of(error)}") from error
    return None if node is None else plain(node, where)


def _composed(text: str) -> Any:
    node = yaml.compose(text, Loader=_Loader)
    if node is not None:
        _count(node, {})
    return node


def _count(node: Any, counts: dict[int, int]) -> int:
    """How many values a node stands for, with its aliases; each node is visited once."""
    if id(node) not in counts:
        counts[id(node)] = 0
        parts = node.value if isinstance(node, yaml.CollectionNode) else ()
        inner = [part for pair in parts for part in pair] if is_mapping(node) else parts
        for part in inner:
            if counts.get(id(part)) == 0:
                raise yaml.MarkedYAMLError(problem="an alias refers to itself", problem_mark=node.start_mark)
        counts[id(node)] = 1 + sum(_count(part, counts) for part in inner)
    if counts[id(node)] > MOST_VALUES:
        problem = f"more than the {MOST_VALUES:,} values that a configuration may have, counting what aliases stand for"
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
    return counts[id(node)]


def _line_of(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    return f":{mark.line + 1}" if mark else ""


def _problem_of(error: Exception) -> str:
    return str(getattr(error, "problem", None) or error)


def dump(tree: Any) -> str:
    """YAML that reads back to the same plain values."""
    text: str = yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text


class _Loader(yaml.SafeLoader):  # type: ignore[misc, unused-ignore]
    """Reads ``3e-4`` as a number, ``on``, ``off``, ``yes``, ``no`` as text, and refuses what is nested too deeply."""

    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """One node; called again for each node in it."""
        self._depth += 1
        if self._depth > DEEPEST:
            problem = f"nested more than the {DEEPEST} levels that a configuration may have"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=self.peek_event().start_mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


class _Dumper(yaml.SafeDumper):  # type: ignore[misc, unused-ignore]
    """Quotes what ``_Loader`` would not read as text."""


_BOOL, _FLOAT = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:float"

for _kind in (_Loader, _Dumper):
    _kind.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in (_BOOL, _FLOAT)]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    _kind.add_implicit_resolver(_BOOL, re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))
    _kind.add_implicit_resolver(
        _FLOAT,
        re.compile(r"^(?:[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*|[0-9][0-9_]*(?=[eE]))(?:[eE][-+]?[0-9]+)?"
                   r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"),
        list("-+0123456789."),
    )  # fmt: skip
