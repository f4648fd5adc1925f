"""How long somebody has been waited for, counting only time in which the waiter was awake to see.

A machine that stands still for seconds, as a virtual one may, lets every clock run on. Whoever then judges by the clock
alone condemns the others before they had a chance to move.
"""

from __future__ import annotations

from dataclasses import dataclass

LONGEST_LOOK_NS = 100_000_000
"""Time between two looks that counts at the most; looks are a hundredth of a second apart while there is trouble."""


@dataclass
class Patience:
    """Of one waiter with one other."""

    limit_ns: int
    waited_ns: int = 0
    looked_ns: int | None = None

    def is_over(self, now_ns: int) -> bool:
        """One look: has it been waited long enough?"""
        since = 0 if self.looked_ns is None else now_ns - self.looked_ns
        self.looked_ns = now_ns
        self.waited_ns += min(since, LONGEST_LOOK_NS)
        return self.waited_ns > self.limit_ns

    def renew(self) -> None:
        """There is nothing to wait for now."""
        self.waited_ns, self.looked_ns = 0, None
