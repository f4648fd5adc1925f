"""One worker as the crew sees it, and the news the crew tells the pool."""

from __future__ import annotations

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


@dataclass
class Member:
    """One worker, or spare: its machine, and what is remembered of its present generation.

    ``index`` is the role, ``line`` the process's place in shared memory; they differ once a spare has stepped in.
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
    attempts: int = 0
    restarts: int = 0
    stage: Stage = Stage.NONE
    phase: Phase = Phase.IDLE
    spawned_ns: int = 0
    ready_ns: int = 0
    went_ns: int = 0
    log_from: int = 0
    steps_at_start: int = 0
    keeper: Patience = field(default_factory=lambda: Patience(KEEPER_PATIENCE_NS))
    """With the keeper, which is to report the end of this worker."""

    @property
    def is_up(self) -> bool:
        """Whether requests are served now (or will be noticed to be late)."""
        return self.machine.state in (WorkerState.RUNNING, WorkerState.DUMPING)


@dataclass(frozen=True)
class Happening:
    """News for the pool: ``hello``, ``up``, or ``down`` with the fault (None when the end was planned)."""

    kind: str
    worker: int
    fault: Fault | None = None
    hello: Hello | None = field(default=None)


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


def about(member: Member, rss: bool = False, rss_bytes: int | None = None) -> dict[str, Any]:
    """What every event about a worker says; ``rss``: look how much memory it has now."""
    if rss and member.pid:
        rss_bytes = host.resident_bytes(member.pid)
    return {
        "worker": member.index,
        "slots": member.slots,
        "generation": member.machine.generation,
        "pid": member.pid,
        "rss_bytes": rss_bytes,
    }
