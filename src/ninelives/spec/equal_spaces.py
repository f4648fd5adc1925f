"""Whether two spaces are equal. Pure."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces


class DifferentSpacesError(ValueError):
    """Slots of one pool have spaces that do not fit together."""


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
