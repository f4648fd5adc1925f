"""Which observation spaces the slots of one pool may have: Gymnasium's ``observation_mode``. Pure.

==================  =================================================================================================
``"same"``          the spaces of all slots are equal
``"different"``     bounds may differ, shapes and dtypes may not
(batched, single)   shapes and dtypes are those of ``single``; both spaces are shown in place of the environments' own
==================  =================================================================================================

Action spaces must be equal in every mode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gymnasium import spaces

from ninelives.errors import ConfigError
from ninelives.spec.arrays import fields, tree_of
from ninelives.spec.equal_spaces import are_equal

Spaces = tuple[Any, Any]
"""Observation space and action space of one environment."""


@dataclass(frozen=True)
class ObservationMode:
    """The mode; ``batched`` and ``single`` are the user's own spaces, or None."""

    is_same: bool = True
    batched: Any = None
    single: Any = None

    @classmethod
    def parse(cls, value: object) -> ObservationMode:
        """Accept what Gymnasium's vector environments accept."""
        match value:
            case "same" | "different":
                return cls(is_same=value == "same")
            case tuple((spaces.Space() as batched, spaces.Space() as single)):
                return cls(False, batched, single)
        raise ConfigError(
            f"observation_mode={value!r} is not known; allowed: 'same', 'different', or a tuple of two spaces, the "
            "batched one first"
        )

    def difference(self, slot: int, found: Spaces, first_slot: int, wanted: Spaces) -> str | None:
        """How the spaces of a slot differ from what the mode asks for; None if they fit."""
        whose, rule = f"slot {first_slot}", "all must be equal" if self.is_same else "shapes and dtypes must be equal"
        observation = wanted[0] if self.single is None else self.single
        parts = []
        if not (are_equal if self.is_same else have_equal_rows)(found[0], observation):
            parts.append(f"its observation space is {found[0]} instead of {observation}")
            whose = whose if self.single is None else "observation_mode"
        if not are_equal(found[1], wanted[1]):
            parts.append(f"its action space is {found[1]} instead of {wanted[1]}")
        return f"slot {slot} has other spaces than {whose}: {' and '.join(parts)}; {rule}" if parts else None


SAME = ObservationMode()


def have_equal_rows(one: Any, other: Any) -> bool:
    """Whether values of both spaces have the same type, shape and dtype, part by part and in the same order."""
    try:
        is_equivalent = spaces.utils.is_space_dtype_shape_equiv(one, other)
    except NotImplementedError:  # Gymnasium does not know every space
        return are_equal(one, other)
    return bool(is_equivalent) and fields(tree_of(one), "", 1) == fields(tree_of(other), "", 1)
