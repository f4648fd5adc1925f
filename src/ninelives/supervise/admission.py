"""Who may start now: at most so many at once, with a pause between two starts. Pure; the caller brings the time.

A start ends by success or by failure, and either gives the place back: one that never succeeds cannot block the rest.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field


@dataclass
class Admission:
    """A queue of workers that want to start."""

    at_once: int
    delay_s: float
    queue: deque[int] = field(default_factory=deque)
    starting: set[int] = field(default_factory=set)
    last_start_s: float = float("-inf")

    def ask(self, worker: int) -> None:
        """A worker wants to start."""
        if worker not in self.queue and worker not in self.starting:
            self.queue.append(worker)

    def could_admit(self, now_s: float) -> bool:
        """Whether somebody waits and may start now."""
        free = len(self.starting) < self.at_once and now_s >= self.last_start_s + self.delay_s
        return free and bool(self.queue)

    def admit(self, now_s: float) -> int:
        """Let the next worker start; only after ``could_admit``."""
        worker = self.queue.popleft()
        self.starting.add(worker)
        self.last_start_s = now_s
        return worker

    def done(self, worker: int) -> None:
        """A start ended, well or badly; or the worker no longer wants to start."""
        self.starting.discard(worker)
        if worker in self.queue:
            self.queue.remove(worker)
