"""One worker process as the supervisor sees it, and the changes that the supervisor reports to the pool.

A role (worker 3, spare 0) and the process that plays it are two things: replacing a worker by a spare exchanges the
processes of two roles, with everything that is known of them. Nothing in shared memory moves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ninelives import host
from ninelives.errors import Fault
from ninelives.spec.handshake import Hello
from ninelives.spec.options import PoolOptions
from ninelives.spec.phase import Phase, Stage
from ninelives.supervise.budget import Backoff
from ninelives.supervise.machine import NS, Deadlines, WorkerMachine, WorkerState
from ninelives.supervise.patience import Patience

KEEPER_PATIENCE_NS = 5 * NS
"""A kill is reported within milliseconds; after this long the keeper itself is stopped or stuck."""

LONGEST_S = 1e8
"""Three years: what an infinite deadline becomes."""

OF_THE_PROCESS = ("line", "machine", "pid", "stage", "phase", "spawned_ns", "ready_ns", "log_from")
"""Fields that belong to the process rather than to the role."""


@dataclass
class WorkerProcess:
    """One worker, or spare: its state machine, and what is known of its present generation.

    ``index`` is the role, ``line`` the process's place in shared memory; they differ once a spare has replaced a
    worker. ``go_ns`` is when the process was last allowed to go on. ``measures``: it may step an environment to choose
    the number of workers; not again after it died of that.
    """

    index: int
    line: int
    machine: WorkerMachine
    backoff: Backoff
    jitter: float
    is_spare: bool = False
    slots: tuple[int, ...] = ()
    groups: dict[int, tuple[int, ...]] | None = None
    pid: int | None = None
    booted: bool = False
    measures: bool = True
    attempts: int = 0
    restarts: int = 0
    stage: Stage = Stage.NONE
    phase: Phase = Phase.IDLE
    spawned_ns: int = 0
    ready_ns: int = 0
    go_ns: int = 0
    log_from: int = 0
    steps_at_start: int = 0
    keeper: Patience = field(default_factory=lambda: Patience(KEEPER_PATIENCE_NS))
    """With the keeper, which is to report the end of this worker."""

    @property
    def is_measuring(self) -> bool:
        """Whether it builds and steps an environment only to learn what that costs: its groups are not chosen yet."""
        return self.groups is None and self.measures and not self.booted and not self.is_spare

    @property
    def is_up(self) -> bool:
        """Whether requests are served now (or will be noticed to be late)."""
        return self.machine.state in (WorkerState.RUNNING, WorkerState.DUMPING)

    def event_fields(self, rss: bool = False, rss_bytes: int | None = None) -> dict[str, Any]:
        """What every event about a worker says; ``rss``: measure how much memory it has now."""
        if rss and self.pid:
            rss_bytes = host.resident_bytes(self.pid)
        return {
            "worker": self.index,
            "slots": self.slots,
            "generation": self.machine.generation,
            "pid": self.pid,
            "rss_bytes": rss_bytes,
        }


@dataclass(frozen=True)
class WorkerChange:
    """What happened to a worker: ``hello``, ``up``, or ``down`` with the fault (None when the end was planned)."""

    kind: str
    worker: int
    fault: Fault | None = None
    hello: Hello | None = None


def deadlines_of(options: PoolOptions) -> Deadlines:
    """The deadline of each phase, from the settings."""
    seconds = {
        Phase.IMPORT: options.import_timeout_s,
        Phase.CONSTRUCT: options.construct_timeout_s,
        Phase.RESET: options.reset_timeout_s,
        Phase.RESTORE: options.reset_timeout_s,
        Phase.STEP: options.step_timeout_s,
        Phase.CALL: options.call_timeout_s,
        Phase.CLOSE: options.close_timeout_s,
    }
    return Deadlines({phase: int(min(limit, LONGEST_S) * NS) for phase, limit in seconds.items()})


def swap_processes(one: WorkerProcess, other: WorkerProcess) -> None:
    """Each role is played by the other's process from now on."""
    for name in OF_THE_PROCESS:
        mine, theirs = getattr(one, name), getattr(other, name)
        setattr(one, name, theirs)
        setattr(other, name, mine)


def waiting_spare(spares: Iterable[WorkerProcess]) -> WorkerProcess | None:
    """A spare whose environments are built."""
    for spare in spares:
        if spare.stage is Stage.HELLO and spare.machine.state is WorkerState.STARTING and spare.pid is not None:
            return spare
    return None
