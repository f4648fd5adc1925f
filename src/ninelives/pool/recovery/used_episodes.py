"""The first episodes of each slot, kept until it is known whether a used environment's ``reset`` is that of a new one.

Healing continues an episode in a new environment. That is exact only if ``reset`` leaves nothing of earlier episodes,
which the rows of an interrupted episode may not show yet. So the first complete episodes are kept, and the first
environments that are built for a healing play those of their slot, and what there is of the interrupted one, before
anything is restored (``worker.reuse``). Nothing is built, sent or stepped for this while nothing is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ninelives.pool.recovery.journal import Journal
from ninelives.spec.restore import Restore

KEPT = 2
"""Episodes kept of each slot. Only its own: an environment may know its slot."""

ENOUGH = 4
"""Episodes of all slots that must agree, each in several variants."""

LONGEST = 1000
"""Steps of an episode that are played again."""


class UsedEpisodes:
    """The episodes of one pool.

    Attributes:
        collects: whether more episodes are wanted.
        differs: a used environment was found to differ from a new one.
    """

    def __init__(self, journal: Journal, slots: int, is_wanted: bool) -> None:
        self._journal, self._is_wanted = journal, is_wanted
        self.collects, self.differs = is_wanted, False
        self._new_since, self._ordered = np.ones(slots, np.int64), np.ones(slots, np.int64)
        self._kept: list[list[Restore]] = [[] for _ in range(slots)]
        self._ended = np.zeros(slots, np.int64)
        self._agreed = 0

    def is_used(self, slot: int, order: Restore) -> bool:
        """Whether the environment that this order replaces had played episodes before that of the order.

        A new environment's first episode, and all that follows, is exact whatever its reset leaves.
        """
        return order.beginning is None or self._journal.episode(slot) > self._new_since[slot]

    def to_play(self, slot: int, order: Restore) -> tuple[Restore, ...]:
        """What is still to be played by a new environment before this order is carried out."""
        if not self._is_wanted or not self.is_used(slot, order):
            return ()
        begins = order.beginning is not None and order.beginning.state is None
        own = (order,) if begins and 1 <= order.steps <= LONGEST else ()
        return (*self._kept[slot], *own)

    def order_env(self, slot: int, episode: int) -> None:
        """A new environment is ordered, whose first episode will be this one. The order may have to be repeated."""
        self._ordered[slot] = episode

    def have_new_env(self, slot: int) -> None:
        """The slot has the environment that was ordered."""
        self._new_since[slot] = self._ordered[slot]

    def keep(self, slots: npt.NDArray[np.int64]) -> None:
        """The episodes of these slots have just ended."""
        for slot in slots[self._ended[slots] < KEPT].tolist():
            self._ended[slot] += 1
            played = self._journal.played(slot, LONGEST)
            self._kept[slot] += [played] if played is not None else []
        self.collects = bool((self._ended < KEPT).any())

    def agree(self, episodes: Sequence[Restore]) -> None:
        """New and used environments agree in these."""
        self._agreed += len(episodes)
        if self._agreed >= ENOUGH:
            self._settle()

    def differ(self) -> None:
        """They do not."""
        self.differs = True
        self._settle()

    def _settle(self) -> None:
        self._is_wanted = self.collects = False
        self._kept = [[] for _ in self._kept]
