"""How a process ended, in words that a user can act on."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

NEAR_LIMIT = 0.9
"""Share of the memory limit above which a SIGKILL is suspected to be the kernel's out-of-memory killer."""

_ADVICE = {
    "SIGSEGV": "native code touched memory it does not own; the stack at the end of the log names the call",
    "SIGBUS": "a mapped file shrank or was rewritten under the simulator (a shared ROM or save file?)",
    "SIGABRT": "native code aborted (failed assertion or corrupted heap); see the end of the log",
    "SIGILL": "the simulator was built for a different processor",
    "SIGFPE": "native code divided by zero",
    "SIGTERM": "another process asked the worker to terminate",
}


@dataclass(frozen=True)
class Ending:
    """Signal or exit code of a process."""

    signal: str | None
    exit_code: int | None

    @classmethod
    def of(cls, status: int) -> Ending:
        """Decode the status of wait(2)."""
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            try:
                return cls(signal.Signals(number).name, None)
            except ValueError:
                return cls(f"signal {number}", None)
        return cls(None, os.WEXITSTATUS(status))

    def describe(self, rss_bytes: int = 0, limit_bytes: int = 0) -> str:
        """What ended it, as one clause."""
        if self.signal == "SIGKILL" and limit_bytes and rss_bytes > NEAR_LIMIT * limit_bytes:
            return f"killed by SIGKILL at {rss_bytes / 1e6:.0f} MB of {limit_bytes / 1e6:.0f} MB: out of memory?"
        if self.signal == "SIGKILL":
            return "killed by SIGKILL (by another process, or by the system: out of memory?)"
        if self.signal:
            return f"killed by {self.signal}"
        return f"exited by itself with code {self.exit_code}"

    @property
    def advice(self) -> str:
        """What to do about it."""
        if self.signal is None:
            return "the environment or a library called exit; look at the end of the log"
        return _ADVICE.get(self.signal, "look at the end of the log; `dmesg` lists out-of-memory kills")
