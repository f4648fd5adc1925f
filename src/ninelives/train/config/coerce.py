"""Converts a plain value (from YAML or a flag) to the type of a setting. Pure; must never know a setting."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin


class CoercionError(ValueError):
    """The value cannot be converted; the message says what is allowed."""


def coerce(value: Any, kind: Any) -> Any:
    """The value as this type: ``1e6`` as an int, ``"3e-4"`` as a float, a list as a tuple.

    Raises:
        CoercionError: the value cannot be of this type.
    """
    origin = get_origin(kind)
    if kind is Any:
        return value
    if origin is typing.Annotated:
        return coerce(value, get_args(kind)[0])
    if origin is Literal:
        return _of_literal(value, kind)
    if origin in (Union, types.UnionType):
        return _of_union(value, kind)
    if origin is tuple or (isinstance(origin, type) and issubclass(origin, Sequence)):
        return _of_sequence(value, kind)
    if isinstance(origin or kind, type) and issubclass(origin or kind, Mapping):
        return _of_mapping(value, kind)
    return _of_plain(value, kind)


def describe(kind: Any) -> str:
    """The allowed values, for a message: ``a whole number or 'auto'``."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is typing.Annotated:
        return describe(inner[0])
    if origin is Literal:
        return _listed([repr(choice) for choice in inner])
    if origin in (Union, types.UnionType):
        return _listed([describe(part) for part in inner])
    if origin is tuple or (isinstance(origin, type) and issubclass(origin, Sequence)):
        return f"a list of {describe(inner[0])} each" if inner else "a list"
    if isinstance(origin or kind, type) and issubclass(origin or kind, Mapping):
        return "names with values, like {level: 3}"
    return _DESCRIPTIONS.get(kind, getattr(kind, "__name__", str(kind)))


_DESCRIPTIONS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "a path",
    type(None): "null",
}


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} or {parts[-1]}"


def _of_plain(value: Any, kind: Any) -> Any:
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if kind is float and isinstance(value, str):
        return _number(value)
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind is int and isinstance(value, str) and _number(value).is_integer():
        return int(value) if value.lstrip("-").isdigit() else int(_number(value))
    if kind is Path and isinstance(value, str):
        return Path(value)
    if kind is type(None) or kind is None:
        return _checked(value, value is None, "null")
    exact = isinstance(value, get_origin(kind) or kind) and (kind is bool or not isinstance(value, bool))
    return _checked(value, exact, describe(kind))


def _of_literal(value: Any, kind: Any) -> Any:
    choices = get_args(kind)
    found = any(value == choice and type(value) is type(choice) for choice in choices)
    return _checked(value, found, describe(kind))


def _of_union(value: Any, kind: Any) -> Any:
    """An exact match first: ``1`` for ``float | int`` stays an int, ``"8"`` for ``str | int`` stays text."""
    parts = get_args(kind)
    for part in parts:
        if isinstance(part, type) and type(value) is part:
            return coerce(value, part)
    for part in parts:
        try:
            return coerce(value, part)
        except CoercionError:
            continue
    raise CoercionError(describe(kind))


def _of_sequence(value: Any, kind: Any) -> tuple[Any, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise CoercionError(describe(kind))
    inner = get_args(kind)
    return tuple(coerce(item, inner[0] if inner else Any) for item in value)


def _of_mapping(value: Any, kind: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise CoercionError(describe(kind))
    inner = get_args(kind)[1] if get_args(kind) else Any
    return {key: coerce(item, inner) for key, item in value.items()}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise CoercionError("a number") from None


def _checked(value: Any, fits: bool, allowed: str) -> Any:
    if not fits:
        raise CoercionError(allowed)
    return value
