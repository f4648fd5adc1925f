"""When a slot's snapshots are taken: often enough to make replays short, seldom enough to cost next to nothing."""

from __future__ import annotations

import math
from typing import Any

from ninelives.worker.snapshots import Snapshotter

SHARE = 0.01
"""Snapshots may cost at most this share of the time spent in steps."""

GROWTH = 4
"""How much longer one interval may be than the one before: a single slow save, like the first, proves little."""


def interval(every: int, save_ns: float, step_ns: float, before: int) -> int:
    """Steps between two snapshots: ``every``, or more where saving is slow and steps are fast."""
    return min(max(every, math.ceil(save_ns / (SHARE * max(step_ns, 1.0)))), GROWTH * before)


class Saver:
    """Takes snapshots of one environment and knows what they cost."""

    def __init__(self, env: Any, every: int) -> None:
        self.snapshotter = Snapshotter.of(env)
        self._every = self._interval = every
        self._save_ns = 0.0

    def save(self) -> bytes | None:
        """A snapshot, or None where the environment offers none."""
        return None if self.snapshotter is None else self.snapshotter.save()

    def took(self, save_ns: int) -> None:
        """So much of the processor it took to take a snapshot and to hand it over."""
        # The first save imports and warms up: a mean that forgets lets the interval come down again.
        self._save_ns = save_ns if not self._save_ns else 0.7 * self._save_ns + 0.3 * save_ns

    def next_interval(self, steps: int, step_ns: int) -> int:
        """How many steps until the next snapshot, from what saving and stepping have cost so far."""
        self._interval = interval(self._every, self._save_ns, step_ns / max(steps, 1), self._interval)
        return self._interval

    @property
    def first_interval(self) -> int:
        """How many steps until the first snapshot of a slot; zero: never."""
        return self._every if self.snapshotter is not None else 0
