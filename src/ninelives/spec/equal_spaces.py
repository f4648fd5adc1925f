"""Whether environments of one pool have equal spaces, and what a user reads if they do not. Pure."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces

Spaces = tuple[Any, Any]
"""Observation space and action space of one environment."""


class DifferentSpacesError(ValueError):
    """Slots of one pool have different spaces."""


def difference(slot: int, found: Spaces, first_slot: int, wanted: Spaces) -> str | None:
    """How the spaces of a slot differ from those of the first; None if they are equal."""
    named = zip(("observation", "action"), found, wanted, strict=True)
    parts = [f"its {name} space is {one} instead of {other}" for name, one, other in named if not are_equal(one, other)]
    if not parts:
        return None
    return f"slot {slot} has other spaces than slot {first_slot}: {' and '.join(parts)}; all must be equal"


def are_equal(one: Any, other: Any) -> bool:
    """As ``==``; spaces that do not define it, which would differ from every copy, are compared by shape and dtype."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, spaces.Dict):
        return list(one.spaces) == list(other.spaces) and all(are_equal(one[key], other[key]) for key in one.spaces)
    if isinstance(one, spaces.Tuple):
        return len(one.spaces) == len(other.spaces) and all(map(are_equal, one.spaces, other.spaces))
    if any("__eq__" in vars(kind) for kind in type(one).__mro__[:-1]):
        return bool(one == other)
    return bool(one.shape == other.shape and one.dtype == other.dtype)
