"""Checks of single settings: a wrong value is refused with its key, the value and what is allowed. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ninelives.errors import ConfigError


def whole(key: str, value: object, least: int, or_else: str = "", most: int | None = None) -> None:
    """A whole number, ``least`` or more, and ``most`` or less if that is given."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most is not None and value > most):
        other = f", or {or_else}" if or_else else ""
        limits = f", {least} or more" if most is None else f" from {least} to {most}"
        raise ConfigError(f"{key}={value!r} must be a whole number{limits}{other}")


def number(key: str, value: object) -> float:
    """A number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{key}={value!r} must be a number, not {type(value).__name__}")
    return float(value)


def above(key: str, value: object, bound: float) -> None:
    """A number greater than ``bound``."""
    if not number(key, value) > bound:
        raise ConfigError(f"{key}={value!r} must be greater than {bound}")


def at_least(key: str, value: object, bound: float) -> None:
    """A number, ``bound`` or more."""
    if not number(key, value) >= bound:
        raise ConfigError(f"{key}={value!r} must be {bound} or more")


def between(key: str, value: object, low: float, high: float) -> None:
    """A number from ``low`` to ``high``."""
    if not low <= number(key, value) <= high:
        raise ConfigError(f"{key}={value!r} must be between {low} and {high}")


def one_of(key: str, value: object, allowed: Sequence[object]) -> None:
    """One of these."""
    if value not in allowed:
        raise ConfigError(f"{key}={value!r} is not known; allowed: {', '.join(map(repr, allowed))}")
