"""The life cycle of a worker as a pure state machine: ``event, now -> commands``.

It must touch no process, no clock and no shared memory.

::

    WAITING            --admitted-->         STARTING --ready-->       RUNNING
    STARTING, RUNNING  --deadline missed-->  DUMPING  --grace over-->  KILLING
    RUNNING            --retired-->          STOPPING --grace over-->  KILLING
    STARTING, RUNNING  --condemned-->        KILLING
    any living state   --exited-->           ENDED  --restart scheduled-->  WAITING

DUMPING comes before KILLING so that a hang shows its stack. KILLING ends only when the keeper has reaped the process:
until then the old generation might still write, so no new one is started.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from ninelives.spec.phase import Phase

DUMP_GRACE_S = 0.2
"""Time for a process to write its stack; a stopped one cannot."""

NS = 1_000_000_000


class WorkerState(Enum):
    """Where a worker is in its life cycle."""

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    DUMPING = "dumping"
    STOPPING = "stopping"
    KILLING = "killing"
    ENDED = "ended"


class Command(Enum):
    """What the caller has to do to the process."""

    SPAWN = "spawn"
    DUMP = "dump"
    STOP = "stop"
    KILL = "kill"


@dataclass(frozen=True)
class Reading:
    """A worker's progress, as read from its shared words.

    ``asked_ns`` is when its oldest open request was sent, or when a starting worker was allowed to continue; None if it
    has no open request. ``slot`` is the one being served.
    """

    phase: Phase
    since_ns: int
    asked_ns: int | None
    slot: int | None = None


@dataclass(frozen=True)
class Deadlines:
    """How long each phase may take, in nanoseconds."""

    limits_ns: dict[Phase, int]

    def late_by_ns(self, reading: Reading, starting: bool, scale: float, now_ns: int) -> int:
        """By how much a phase has exceeded its limit; zero or less if it has not."""
        if starting:
            if reading.phase is Phase.IDLE:
                if reading.asked_ns is None:
                    return 0  # it waits for the parent
                return now_ns - max(reading.since_ns, reading.asked_ns) - int(self.limits_ns[Phase.CONSTRUCT] * scale)
            return now_ns - reading.since_ns - int(self.limits_ns[reading.phase] * scale)
        if reading.asked_ns is None:
            return 0
        # Idle with an open request: it has not woken up (stopped, or starved), which counts as a step.
        phase = Phase.STEP if reading.phase is Phase.IDLE else reading.phase
        return now_ns - max(reading.since_ns, reading.asked_ns) - self.limits_ns[phase]


@dataclass
class WorkerMachine:
    """The state of one worker across its generations."""

    deadlines: Deadlines
    stop_grace_ns: int
    state: WorkerState = WorkerState.WAITING
    generation: int = 0
    since_ns: int = 0
    restart_at_ns: int = 0
    hung: Reading | None = None
    late_ns: int = 0
    condemned: str = ""
    retired: str | None = field(default=None)

    def admitted(self, now_ns: int) -> list[Command]:
        """This worker may start now."""
        assert self.state is WorkerState.WAITING
        self.generation += 1
        self.hung, self.retired, self.late_ns, self.condemned = None, None, 0, ""
        self._go(WorkerState.STARTING, now_ns)
        return [Command.SPAWN]

    def ready(self, now_ns: int) -> None:
        """All its environments are built."""
        if self.state is WorkerState.STARTING:
            self._go(WorkerState.RUNNING, now_ns)

    def look(self, reading: Reading, now_ns: int, scale: float = 1.0) -> list[Command]:
        """Compare progress with deadlines; the only place where time alone changes the state."""
        if self.state in (WorkerState.STARTING, WorkerState.RUNNING):
            late = self.deadlines.late_by_ns(reading, self.state is WorkerState.STARTING, scale, now_ns)
            if late > 0:
                self.hung, self.late_ns = reading, late
                self._go(WorkerState.DUMPING, now_ns)
                return [Command.DUMP]
        elif self._grace_is_over(now_ns):
            self._go(WorkerState.KILLING, now_ns)
            return [Command.KILL]
        return []

    def _grace_is_over(self, now_ns: int) -> bool:
        graces = {WorkerState.DUMPING: int(DUMP_GRACE_S * NS), WorkerState.STOPPING: self.stop_grace_ns}
        return self.state in graces and now_ns - self.since_ns >= graces[self.state]

    def condemn(self, reason: str, now_ns: int) -> list[Command]:
        """End this generation at once: nothing that it says can be trusted."""
        if self.state not in (WorkerState.STARTING, WorkerState.RUNNING):
            return []
        self.condemned = reason
        self._go(WorkerState.KILLING, now_ns)
        return [Command.KILL]

    def retire(self, reason: str, now_ns: int) -> list[Command]:
        """End this generation on purpose: ask it to stop, and kill it after the grace period."""
        if self.state is not WorkerState.RUNNING:
            return []
        self.retired = reason
        self._go(WorkerState.STOPPING, now_ns)
        return [Command.STOP]

    def exited(self, now_ns: int) -> None:
        """The process has been reaped. ``wait_until`` follows if it is to be restarted."""
        self._go(WorkerState.ENDED, now_ns)

    def wait_until(self, restart_at_ns: int, now_ns: int) -> None:
        """Schedule a new generation for that time at the earliest."""
        assert self.state is WorkerState.ENDED
        self.restart_at_ns = restart_at_ns
        self._go(WorkerState.WAITING, now_ns)

    @property
    def is_alive(self) -> bool:
        """Whether a process exists that has not been reaped."""
        return self.state not in (WorkerState.WAITING, WorkerState.ENDED)

    def _go(self, state: WorkerState, now_ns: int) -> None:
        self.state, self.since_ns = state, now_ns
