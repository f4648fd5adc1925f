"""Time, passed in. Monotonic only: wall-clock time jumps, and a jump must never kill a worker.

On Linux ``CLOCK_MONOTONIC`` is one clock for all processes of the machine, so a stamp written by a worker into shared
memory can be compared with the parent's own reading. Deadlines rest on that.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Anything that can tell monotonic nanoseconds."""

    def now_ns(self) -> int:
        """Nanoseconds on a clock that never goes back."""
        ...


class SystemClock:
    """The machine's monotonic clock."""

    def now_ns(self) -> int:
        """Nanoseconds of ``CLOCK_MONOTONIC``, comparable between processes."""
        return time.monotonic_ns()
