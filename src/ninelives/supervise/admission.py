"""Which worker may start now: a limited number at once, with a pause between two starts. Pure: time is an argument.

A start ends by success or by failure and frees its place either way, so one that never succeeds cannot block the rest.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field


@dataclass
class Admission:
    """A queue of workers that are waiting to start."""

    at_once: int
    delay_s: float
    queue: deque[int] = field(default_factory=deque)
    starting: set[int] = field(default_factory=set)
    last_start_s: float = float("-inf")

    def ask(self, worker: int) -> None:
        """Queue a worker, unless it is queued or starting already."""
        if worker not in self.queue and worker not in self.starting:
            self.queue.append(worker)

    def could_admit(self, now_s: float) -> bool:
        """Whether a worker is waiting and may start now."""
        free = len(self.starting) < self.at_once and now_s >= self.last_start_s + self.delay_s
        return free and bool(self.queue)

    def admit(self, now_s: float) -> int:
        """Let the next worker start; call only after ``could_admit``."""
        worker = self.queue.popleft()
        self.starting.add(worker)
        self.last_start_s = now_s
        return worker

    def done(self, worker: int) -> None:
        """Free the worker's place: its start succeeded or failed, or it is no longer needed."""
        self.starting.discard(worker)
        if worker in self.queue:
            self.queue.remove(worker)
