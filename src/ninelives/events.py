"""Everything that happens, as frozen records, and the one-method protocol of whoever listens.

Names are past tense. Every record knows when it happened on the monotonic clock (``at_s``) and which worker and slots
it is about; ``to_json`` gives the line that goes into ``events.jsonl``. This module must never import anything of the
package: every other room may speak of events.
"""

from __future__ import annotations

import dataclasses
import json
import time
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, kw_only=True)
class Event:
    """Base record: when, and about whom."""

    at_s: float = field(default_factory=time.monotonic)
    wall_s: float = field(default_factory=time.time)
    worker: int | None = None
    slots: tuple[int, ...] = ()
    generation: int | None = None
    pid: int | None = None
    rss_bytes: int | None = None

    def to_json(self) -> str:
        """One line of JSON; ``event`` is the record's name."""
        fields = {k: v for k, v in dataclasses.asdict(self).items() if v is not None}
        return json.dumps({"event": type(self).__name__, **fields}, default=str)


@dataclass(frozen=True, kw_only=True)
class PoolStarted(Event):
    """All workers are up: what was built, and why that many workers."""

    env: str
    num_envs: int
    workers: int
    groups: int
    batch_size: int
    start_method: str
    native: bool
    on_fault: str
    seconds: float
    workers_because: str


@dataclass(frozen=True, kw_only=True)
class EnvWarned(Event):
    """An environment of this package finds something odd about its settings."""

    text: str


@dataclass(frozen=True, kw_only=True)
class WorkerSpawned(Event):
    """A process was started for these slots."""

    started: int
    total: int


@dataclass(frozen=True, kw_only=True)
class PhaseEntered(Event):
    """A starting or recovering worker entered a phase (steps are not phase changes worth a line)."""

    phase: str


@dataclass(frozen=True, kw_only=True)
class WorkerReady(Event):
    """A worker has built all its environments."""

    seconds: float
    ready: int
    total: int


@dataclass(frozen=True, kw_only=True)
class FaultSeen(Event):
    """A worker crashed, hung, raised or wrote bad data."""

    kind: str
    phase: str
    summary: str
    culprit: int | None = None
    signal: str | None = None
    exit_code: int | None = None
    seed: int | None = None
    last_action: Any = None
    stderr_tail: str = ""
    traceback: str = ""
    during_start: bool = False


@dataclass(frozen=True, kw_only=True)
class StackDumped(Event):
    """A worker past its deadline was asked for its stack before it was killed."""

    phase: str
    late_s: float
    stack: str


@dataclass(frozen=True, kw_only=True)
class WorkerKilled(Event):
    """A worker and its whole process group were killed."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class WorkerExited(Event):
    """A worker's process is gone and reaped."""

    cause: str
    expected: bool


@dataclass(frozen=True, kw_only=True)
class RestartScheduled(Event):
    """A new generation will start after a pause."""

    delay_s: float
    restarts: int


@dataclass(frozen=True, kw_only=True)
class SpareStepped(Event):
    """A spare, whose environments were built already, takes a dead worker's place."""


@dataclass(frozen=True, kw_only=True)
class EpisodeStarted(Event):
    """A slot is back with a fresh episode after a fault or a recycling."""

    seconds: float


@dataclass(frozen=True, kw_only=True)
class SlotHealed(Event):
    """A slot is back in the very state it had; nobody above the pool has noticed.

    ``replayed`` steps were repeated, beginning at ``from_step`` of the episode (0, or where a snapshot was taken).
    """

    seconds: float
    replayed: int
    from_step: int


@dataclass(frozen=True, kw_only=True)
class HealFailed(Event):
    """A slot could not be brought back and its episode is cut.

    ``reason``: ``diverged`` (the row after ``step`` steps is another one), ``failed`` (the replay raised or took too
    long), ``poison`` (``action``, after ``step`` steps, broke it again), ``gave_up`` (killed from outside again and
    again) or ``cannot`` (``detail`` says why).
    """

    reason: str
    step: int
    action: Any = None
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class ReplayProgress(Event):
    """How far a long replay is."""

    done: int
    total: int


@dataclass(frozen=True, kw_only=True)
class SlotQuarantined(Event):
    """A slot's restart budget is spent; it stays out and its rows are masked."""

    restarts: int
    window_s: float


@dataclass(frozen=True, kw_only=True)
class WorkerRecycled(Event):
    """A worker was replaced on purpose."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class KeeperLost(Event):
    """The process that holds all workers died; everything is started again."""

    cause: str


@dataclass(frozen=True, kw_only=True)
class MetricsSampled(Event):
    """Per-slot numbers at one moment; see ``pool.metrics``."""

    steps_per_s: float
    per_slot: tuple[dict[str, Any], ...]


@dataclass(frozen=True, kw_only=True)
class PoolClosed(Event):
    """The pool ended; how long it took and how many workers had to be killed."""

    seconds: float
    killed: int
    steps: int
    faults: int


class Sink(Protocol):
    """Whoever wants to hear of events. ``emit`` must return quickly and must not raise."""

    def emit(self, event: Event) -> None:
        """Take one event."""
        ...
