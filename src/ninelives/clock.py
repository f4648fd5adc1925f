"""Time, as an argument. Monotonic only: wall-clock time can jump, and a jump must never kill a worker.

On Linux ``CLOCK_MONOTONIC`` is one clock for all processes of the machine, so a time stamp that a worker writes into
shared memory can be compared with the parent's own clock. Deadlines depend on that.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Anything that returns monotonic nanoseconds."""

    def now_ns(self) -> int:
        """Nanoseconds on a clock that never goes back."""
        ...


class SystemClock:
    """The machine's monotonic clock."""

    def now_ns(self) -> int:
        """Nanoseconds of ``CLOCK_MONOTONIC``, comparable between processes."""
        return time.monotonic_ns()
