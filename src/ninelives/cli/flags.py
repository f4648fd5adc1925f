"""A configuration class as flags: one flag per field, one group per section, help texts from the field docstrings.

Parsing returns only what was given on the command line, so that a file can provide the rest. Knows no setting itself.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import operator
import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any, TypedDict, Union, get_args, get_origin

import docstring_parser
import tyro

PAIRS = tyro.conf.arg(metavar="[KEY=VALUE ...]")


def flags_of(cls: type, *, without: tuple[str, ...] = ()) -> Any:
    """A type for tyro whose parsed value is a nested dict of the flags that were given."""
    hints = typing.get_type_hints(cls)
    flags = {
        field.name: _flag(cls, field, hints[field.name])
        for field in dataclasses.fields(cls)
        if field.name not in without
    }
    made: Any = TypedDict(cls.__name__, flags, total=False)  # type: ignore[misc]
    made.__doc__ = (inspect.getdoc(cls) or "").replace("``", "")
    return made


def _flag(cls: type, field: dataclasses.Field[Any], kind: Any) -> Any:
    if dataclasses.is_dataclass(kind):
        return flags_of(typing.cast(type, kind))
    hint = f"(default: {_default(field)})"
    help_ = tyro.conf.arg(help=_docs(cls).get(field.name, ""), help_behavior_hint=hint)
    if get_origin(kind) is not None and _is_mapping(get_origin(kind)):
        return Annotated[tuple[str, ...], PAIRS, help_]
    return Annotated[_without_none(kind), help_]


def _without_none(kind: Any) -> Any:
    """A flag has no spelling for None; use ``--set name=null``."""
    parts = [part for part in get_args(kind) if part is not type(None)]
    return functools.reduce(operator.or_, parts) if get_origin(kind) in (Union, types.UnionType) else kind


def _is_mapping(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _default(field: dataclasses.Field[Any]) -> str:
    value = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
    if value is None or value == {}:
        return "none"
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "none"
    return str(value)


@functools.cache
def _docs(cls: type) -> dict[str, str]:
    """The docstring of each field, without code markup, which a terminal would show literally."""
    found = docstring_parser.parse_from_object(cls).params
    return {param.arg_name: (param.description or "").replace("``", "") for param in found}
