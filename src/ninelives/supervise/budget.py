"""How many restarts are allowed: sliding windows, and pauses that grow. Pure: time is an argument.

As in OTP: at most R restarts in T seconds, per slot and for the whole pool. A slot over its budget is quarantined; a
pool over its budget gives up. The first restart is immediate; each further one in a row waits longer.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

JITTER = 0.5
"""A pause is shortened at random by up to this share, so that workers that died together do not restart together."""


@dataclass
class SlidingWindow:
    """Counts what happened within the last ``length_s`` seconds."""

    limit: int
    length_s: float
    times: deque[float] = field(default_factory=deque)

    def note(self, now_s: float) -> bool:
        """Count one more; False if that exceeds the limit."""
        self.times.append(now_s)
        return self.count(now_s) <= self.limit

    def count(self, now_s: float) -> int:
        """How many are still within the window."""
        while self.times and self.times[0] <= now_s - self.length_s:
            self.times.popleft()
        return len(self.times)


class RestartBudget:
    """One window per slot and one for the pool."""

    def __init__(self, slots: int, per_slot: int, in_all: int, window_s: float) -> None:
        self._slots = [SlidingWindow(per_slot, window_s) for _ in range(slots)]
        self._pool = SlidingWindow(in_all, window_s)

    def note(self, slots: Iterable[int], now_s: float) -> tuple[set[int], bool]:
        """Count a fault of these slots; returns the slots whose budget is now spent, and whether the pool's is."""
        spent = {slot for slot in slots if not self._slots[slot].note(now_s)}
        return spent, not self._pool.note(now_s)

    def restarts_of(self, slot: int, now_s: float) -> int:
        """Faults of a slot within the window."""
        return self._slots[slot].count(now_s)


@dataclass
class Backoff:
    """The pause before the next start of one worker."""

    first_s: float
    longest_s: float
    rng: random.Random
    in_a_row: int = 0

    def after_fault(self, made_progress: bool) -> float:
        """How long to wait now. After progress since the last start, the fault counts as the first in a row."""
        self.in_a_row = 1 if made_progress else self.in_a_row + 1
        if self.in_a_row == 1:
            return 0.0
        # The exponent is bounded: 2 ** 1100 does not fit into a float.
        pause = min(self.longest_s, self.first_s * 2.0 ** min(self.in_a_row - 2, 60))
        return pause * (1 - JITTER * self.rng.random())
