"""Everything that happens in a pool, as frozen records, and the protocol of their sinks.

Names are in the past tense. Every record holds when it happened on the monotonic clock (``at_s``) and which worker and
slots it concerns; ``to_json`` returns its line in ``events.jsonl``. This module must import nothing of the package,
because every other module may use events.
"""

from __future__ import annotations

import dataclasses
import json
import time
from dataclasses import dataclass, field
from typing import Any, Protocol

LONGEST_TEXT = 16_384
"""Characters of a text in an event; of a longer one, the beginning and the end are kept."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """Base record: when it happened, and which worker and slots it concerns."""

    at_s: float = field(default_factory=time.monotonic)
    wall_s: float = field(default_factory=time.time)
    worker: int | None = None
    slots: tuple[int, ...] = ()
    generation: int | None = None
    pid: int | None = None
    rss_bytes: int | None = None

    def __post_init__(self) -> None:
        """Cut texts here, so that memory, sinks and files hold the same: an exception can have a gigabyte of text."""
        for name, value in tuple(vars(self).items()):
            if isinstance(value, str) and len(value) > LONGEST_TEXT:
                object.__setattr__(self, name, _cut(value))

    def to_json(self) -> str:
        """One line of JSON; ``event`` is the record's name."""
        fields = {k: _bounded(v) for k, v in dataclasses.asdict(self).items() if v is not None}
        return json.dumps({"event": type(self).__name__, **fields}, default=str)


@dataclass(frozen=True, kw_only=True)
class PoolStarted(Event):
    """All workers are ready: what was built, and why that many workers."""

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
    """An environment gave a ``NinelivesWarning``, for example about its settings."""

    text: str


@dataclass(frozen=True, kw_only=True)
class WorkerSpawned(Event):
    """A process was started for these slots; ``total`` is 0 while the number of workers is still to be chosen."""

    started: int
    total: int


@dataclass(frozen=True, kw_only=True)
class PhaseEntered(Event):
    """A starting or recovering worker entered a phase; steps are not reported."""

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
    """A spare worker, whose environments are already built, replaced a dead worker."""


@dataclass(frozen=True, kw_only=True)
class EpisodeStarted(Event):
    """A slot is back with a new episode after a fault or after its worker was recycled."""

    seconds: float


@dataclass(frozen=True, kw_only=True)
class SlotHealed(Event):
    """A slot is back in exactly the state it had; its rows show no difference.

    ``replayed`` steps were repeated, starting at ``from_step`` of the episode (0, or where a snapshot was taken).
    """

    seconds: float
    replayed: int
    from_step: int


@dataclass(frozen=True, kw_only=True)
class HealFailed(Event):
    """A slot could not be healed and its episode is cut.

    ``reason``: ``diverged`` (the row after ``step`` steps differs), ``failed`` (replays broke again and again at steps
    that had worked, or one took too long), ``poison`` (``action``, after ``step`` steps, caused a fault again),
    ``gave_up`` (killed from outside repeatedly), ``reset`` (it leaves something of earlier episodes: a used environment
    differs from a new one) or ``cannot`` (``detail`` says why).
    """

    reason: str
    step: int
    action: Any = None
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class ReplayProgress(Event):
    """Progress of a long replay."""

    done: int
    total: int


@dataclass(frozen=True, kw_only=True)
class SlotQuarantined(Event):
    """The restart budget of a slot is spent; it is not restarted and its rows are masked."""

    restarts: int
    window_s: float


@dataclass(frozen=True, kw_only=True)
class WorkerRecycled(Event):
    """A worker was replaced on purpose."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class KeeperLost(Event):
    """The keeper, the parent of all workers, died; all workers are restarted."""

    cause: str


@dataclass(frozen=True, kw_only=True)
class MetricsSampled(Event):
    """Metrics of each slot at one moment; see ``pool.metrics``."""

    steps_per_s: float
    per_slot: tuple[dict[str, Any], ...]


@dataclass(frozen=True, kw_only=True)
class PoolClosed(Event):
    """The pool was closed; how long it took and how many workers had to be killed."""

    seconds: float
    killed: int
    steps: int
    faults: int


def _cut(text: str) -> str:
    half = LONGEST_TEXT // 2 - 32
    return f"{text[:half]}\n[{len(text) - 2 * half:,} characters left out]\n{text[-half:]}"


def _bounded(value: Any) -> Any:
    """A value of any type, such as an action, as it is or, if that is long, as text that is cut."""
    if isinstance(value, bool | int | float | tuple):
        return value
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return value if len(text) <= LONGEST_TEXT else _cut(text)


class Sink(Protocol):
    """A receiver of events. ``emit`` must return quickly and must not raise."""

    def emit(self, event: Event) -> None:
        """Handle one event."""
        ...
