"""Judges the memory of workers from their sizes over time. Pure: reads no process, no clock."""

from __future__ import annotations

from itertools import pairwise

GREW_FACTOR, GREW_BYTES = 1.5, 50_000_000
"""A worker must have grown by both to be suspected of a leak: small processes grow by half while warming up."""

FEWEST, MOST = 6, 16
"""Sizes that are needed for a judgement, and that are kept; then every second one is dropped and the rest lie wider."""

RISING = 0.75
"""Share of the intervals in which a leaking process grows: some of them are short, or freed something."""

LATE = 0.25
"""Share of the growth that falls into the second half of the time: a process that fills its caches grows early."""


def memory_limit(reached: float) -> int:
    """A limit for a worker that grew to this size: below it, so that it takes effect before the size is reached."""
    return int(0.8 * reached)


class SizeHistory:
    """Sizes of one process, at growing intervals, so that slow leaks are seen as well as fast ones."""

    def __init__(self, every_s: float) -> None:
        self.sizes: list[int] = []
        self._every_s, self._next_s = every_s, float("-inf")

    def is_due(self, now_s: float) -> bool:
        """Whether the next size is wanted."""
        return now_s >= self._next_s

    def note(self, now_s: float, size: int) -> None:
        """Receive the size at a time."""
        self.sizes.append(size)
        if len(self.sizes) > MOST:
            self.sizes, self._every_s = self.sizes[::2], 2 * self._every_s
        self._next_s = now_s + self._every_s

    @property
    def grows_steadily(self) -> bool:
        """Whether it grew much, most of the time, and not only in the beginning."""
        sizes = self.sizes
        if len(sizes) < FEWEST:
            return False
        growth = sizes[-1] - sizes[0]
        rising = sum(after > before for before, after in pairwise(sizes)) / (len(sizes) - 1)
        late = sizes[-1] - sizes[len(sizes) // 2]
        return growth > GREW_BYTES and sizes[-1] > GREW_FACTOR * sizes[0] and rising >= RISING and late > LATE * growth
