"""How long a process has been waited for, counting only time in which the waiting process itself was running.

On a machine that is suspended for seconds, as a virtual one may be, every clock runs on. A timeout by the clock alone
would then expire before the other process had a chance to run.
"""

from __future__ import annotations

from dataclasses import dataclass

LONGEST_LOOK_NS = 100_000_000
"""The most that the time between two checks counts; during a recovery, checks are 10 ms apart."""


@dataclass
class Patience:
    """A timeout that tolerates a suspended machine."""

    limit_ns: int
    waited_ns: int = 0
    looked_ns: int | None = None

    def is_over(self, now_ns: int) -> bool:
        """Check whether the limit is exceeded; call it regularly, because each call counts the time since the last."""
        since = 0 if self.looked_ns is None else now_ns - self.looked_ns
        self.looked_ns = now_ns
        self.waited_ns += min(since, LONGEST_LOOK_NS)
        return self.waited_ns > self.limit_ns

    def renew(self) -> None:
        """Start counting from zero: there is nothing to wait for now."""
        self.waited_ns, self.looked_ns = 0, None
