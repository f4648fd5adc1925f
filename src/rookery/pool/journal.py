"""How each slot's episode began: its seed, its options, and in which generation.

Today it answers "with which seed did this break?" and gives a restarted slot its next seed. It is also the place where
the actions since then will be kept, so that a slot can be brought back to the very state it had.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Beginning:
    """How a slot's stream of episodes began: ``seed`` at the last explicit reset (None: unseeded)."""

    seed: int | None = None
    options: Any = None
    restarts: int = 0


class Journal:
    """One beginning per slot."""

    def __init__(self, slots: int) -> None:
        self._beginnings = [Beginning() for _ in range(slots)]
        self.last_action: Callable[[int], Any] = lambda slot: None

    def begin(self, slot: int, seed: int | None, options: Any) -> None:
        """An explicit reset."""
        self._beginnings[slot] = Beginning(seed, options)

    def describe(self, slot: int) -> tuple[int | None, Any]:
        """Seed and last action of a slot, for reports."""
        return self._beginnings[slot].seed, self.last_action(slot)

    def seed_of(self, slot: int) -> int | None:
        """The seed the slot's present stream of episodes began with."""
        return self._beginnings[slot].seed

    def begin_again(self, slot: int) -> int | None:
        """The next generation's seed: derived, so that a run with the same faults gives the same numbers again."""
        old = self._beginnings[slot]
        restarts = old.restarts + 1
        seed = None
        if old.seed is not None:
            seed = int(np.random.SeedSequence([old.seed, slot, restarts]).generate_state(1, np.uint32)[0])
        self._beginnings[slot] = Beginning(old.seed, old.options, restarts)
        return seed
