"""What a view of a pool shows, derived from events: the state of each slot, workers that start, speed.

Pure: no terminal, no clock of its own. Numbers that are not events (steps so far, per-slot memory) are passed in by the
program that runs the pool.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ninelives.events import (
    Event,
    FaultSeen,
    KeeperLost,
    MetricsSampled,
    PhaseEntered,
    PoolClosed,
    PoolStarted,
    RestartScheduled,
    SlotQuarantined,
    StackDumped,
    WorkerExited,
    WorkerReady,
    WorkerSpawned,
)

STATES = ("starting", "running", "hung", "restarting", "quarantined")

RATE_WINDOW_S = 5.0
"""Steps per second cover the last few seconds: long enough to be steady, short enough to show a stall."""


@dataclass
class WorkerStatus:
    """One worker as far as its events show."""

    state: str = "starting"
    slots: tuple[int, ...] = ()
    phase: str = ""
    since_s: float = 0.0
    generation: int = 1


@dataclass
class PoolModel:
    """The current state of a pool."""

    num_envs: int = 0
    total_workers: int = 0
    steps: int = 0
    total_steps: int | None = None
    faults: int = 0
    restarts: int = 0
    closed: bool = False
    eta_s: float | None = None
    workers: dict[int, WorkerStatus] = field(default_factory=dict)
    quarantined: set[int] = field(default_factory=set)
    memory_bytes: int = 0
    _progress: deque[tuple[float, int]] = field(default_factory=deque)

    def note(self, event: Event) -> None:
        """Receive one event."""
        if isinstance(event, PoolStarted):
            self.num_envs, self.total_workers = event.num_envs, event.workers
        elif isinstance(event, FaultSeen):
            self.faults += 1
        elif isinstance(event, SlotQuarantined):
            self.quarantined.update(event.slots)
        elif isinstance(event, MetricsSampled):
            self._sum_memory(event.per_slot)
        elif isinstance(event, KeeperLost):
            for status in self.workers.values():
                status.state = "restarting"
        elif isinstance(event, PoolClosed):
            self.closed, self.steps = True, max(self.steps, event.steps)
        elif event.worker is not None:
            self._note_worker(event, self.workers.setdefault(event.worker, WorkerStatus(since_s=event.at_s)))

    def progress(
        self, now_s: float, steps: int, total: int | None, per_slot: Sequence[Mapping[str, Any]], eta_s: float | None
    ) -> None:
        """Receive the current numbers."""
        self.steps, self.total_steps, self.eta_s = steps, total, eta_s
        self._sum_memory(per_slot)
        self._progress.append((now_s, steps))
        while now_s - self._progress[0][0] > RATE_WINDOW_S and len(self._progress) > 2:
            self._progress.popleft()

    @property
    def steps_per_s(self) -> float:
        """Speed over the last few seconds."""
        if len(self._progress) < 2:
            return 0.0
        (before, steps_before), (now, steps) = self._progress[0], self._progress[-1]
        return (steps - steps_before) / max(now - before, 1e-9)

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the total is reached; None if that is unknown."""
        if self.eta_s is not None or self.total_steps is None:
            return self.eta_s
        rate = self.steps_per_s
        return max(0, self.total_steps - self.steps) / rate if rate > 0 else None

    def slots_by_state(self) -> dict[str, int]:
        """How many slots are in each state; quarantined ones are counted as that alone."""
        counts = Counter({"quarantined": len(self.quarantined)})
        for status in self.workers.values():
            counts[status.state] += sum(slot not in self.quarantined for slot in status.slots)
        return {state: counts[state] for state in STATES}

    def starting(self, now_s: float) -> list[str]:
        """``worker 3/8: construct 0.4 s`` for each worker that is starting or restarting."""
        return [
            f"{place_of(worker, status.state == 'starting', self.total_workers)}: {status.phase or 'waiting'} "
            f"{now_s - status.since_s:.1f} s"
            for worker, status in sorted(self.workers.items())
            if status.state in ("starting", "restarting")
        ]

    def _note_worker(self, event: Event, status: WorkerStatus) -> None:
        status.slots, status.generation = event.slots or status.slots, event.generation or status.generation
        if isinstance(event, WorkerSpawned):
            self.total_workers = event.total or self.total_workers
            status.state = "starting" if status.generation == 1 else "restarting"
        elif isinstance(event, PhaseEntered):
            status.phase, status.since_s = event.phase, event.at_s
        elif isinstance(event, WorkerReady):
            status.state, status.phase = "running", ""
        elif isinstance(event, StackDumped):
            status.state = "hung"
        elif isinstance(event, WorkerExited):
            status.state, status.phase, status.since_s = "restarting", "", event.at_s
        elif isinstance(event, RestartScheduled):
            self.restarts += 1

    def _sum_memory(self, per_slot: Sequence[Mapping[str, Any]]) -> None:
        """Slots of one worker report the same process: count it once."""
        if per_slot:
            self.memory_bytes = sum({n.get("worker"): int(n.get("rss_bytes", 0)) for n in per_slot}.values())


def place_of(worker: int, first: bool, total: int) -> str:
    """``worker 3/8`` during its first start, if it is one of the 8; otherwise ``worker 2``, its index."""
    return f"worker {worker + 1}/{total}" if first and worker < total else f"worker {worker}"
