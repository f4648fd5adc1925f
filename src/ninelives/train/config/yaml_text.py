"""YAML with the line of each value, and without two pitfalls of YAML 1.1.

``3e-4`` is a number, and ``on``, ``off``, ``yes``, ``no`` are text. Must never know a setting.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped, unused-ignore]

from ninelives.errors import ConfigError


def compose(path: Path) -> Any:
    """The file as nodes with line numbers; None if it is empty.

    Raises:
        ConfigError: the file is missing or is not YAML.
    """
    try:
        return yaml.compose(path.read_text(), Loader=_Loader)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--config {str(path)!r} cannot be read: {error}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise ConfigError(f"{path}{line}: not YAML: {getattr(error, 'problem', None) or error}") from error


def is_mapping(node: Any) -> bool:
    """Whether a node consists of ``name: value`` lines."""
    return isinstance(node, yaml.MappingNode)


def plain(node: Any) -> Any:
    """A node's value."""
    loader = _Loader("")
    try:
        return loader.construct_object(node, deep=True)
    finally:
        loader.dispose()


def value(text: str, where: str) -> Any:
    """One value from one line of text.

    Raises:
        ConfigError: the text is not YAML.
    """
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: {text!r} is not a YAML value: {getattr(error, 'problem', error)}") from error


def dump(tree: Any) -> str:
    """YAML that reads back to the same plain values."""
    text: str = yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text


class _Loader(yaml.SafeLoader):  # type: ignore[misc, unused-ignore]
    """Reads ``3e-4`` as a number, and ``on``, ``off``, ``yes``, ``no`` as text."""


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
