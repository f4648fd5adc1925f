"""Whether a plain value (from YAML, from a flag) fits a type, and what it becomes. Pure; knows no configuration."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin


class MisfitError(ValueError):
    """The value does not fit; the message says what would."""


def fit(value: Any, kind: Any) -> Any:
    """The value as the type wants it: ``1e6`` as an int, ``"3e-4"`` as a float, a list as a tuple.

    Raises:
        MisfitError: it cannot be meant.
    """
    origin = get_origin(kind)
    if kind is Any:
        return value
    if origin is typing.Annotated:
        return fit(value, get_args(kind)[0])
    if origin is Literal:
        return _of_literal(value, kind)
    if origin in (Union, types.UnionType):
        return _of_union(value, kind)
    if origin is tuple or (isinstance(origin, type) and issubclass(origin, Sequence)):
        return _of_sequence(value, kind)
    if isinstance(origin or kind, type) and issubclass(origin or kind, Mapping):
        return _of_mapping(value, kind)
    return _of_plain(value, kind)


def words(kind: Any) -> str:
    """What is allowed, for a message: ``a whole number or 'auto'``."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is typing.Annotated:
        return words(inner[0])
    if origin is Literal:
        return _listed([repr(choice) for choice in inner])
    if origin in (Union, types.UnionType):
        return _listed([words(part) for part in inner])
    if origin is tuple or (isinstance(origin, type) and issubclass(origin, Sequence)):
        return f"a list of {words(inner[0])} each" if inner else "a list"
    if isinstance(origin or kind, type) and issubclass(origin or kind, Mapping):
        return "names with values, like {level: 3}"
    return _WORDS.get(kind, getattr(kind, "__name__", str(kind)))


_WORDS = {
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
        return _or_misfit(value, value is None, "null")
    exact = isinstance(value, get_origin(kind) or kind) and (kind is bool or not isinstance(value, bool))
    return _or_misfit(value, exact, words(kind))


def _of_literal(value: Any, kind: Any) -> Any:
    choices = get_args(kind)
    found = any(value == choice and type(value) is type(choice) for choice in choices)
    return _or_misfit(value, found, words(kind))


def _of_union(value: Any, kind: Any) -> Any:
    """An exact match first: ``1`` for ``float | int`` stays whole, ``"8"`` for ``str | int`` stays text."""
    parts = get_args(kind)
    for part in parts:
        if isinstance(part, type) and type(value) is part:
            return fit(value, part)
    for part in parts:
        try:
            return fit(value, part)
        except MisfitError:
            continue
    raise MisfitError(words(kind))


def _of_sequence(value: Any, kind: Any) -> tuple[Any, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise MisfitError(words(kind))
    inner = get_args(kind)
    return tuple(fit(item, inner[0] if inner else Any) for item in value)


def _of_mapping(value: Any, kind: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise MisfitError(words(kind))
    inner = get_args(kind)[1] if get_args(kind) else Any
    return {key: fit(item, inner) for key, item in value.items()}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise MisfitError("a number") from None


def _or_misfit(value: Any, fits: bool, allowed: str) -> Any:
    if not fits:
        raise MisfitError(allowed)
    return value
