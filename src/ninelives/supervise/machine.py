"""One worker's life as a pure state machine: ``event, now -> commands``. No process, no clock, no memory is touched.

::

    WAITING  --Admitted-->  STARTING  --Became ready-->  RUNNING
    STARTING, RUNNING  --deadline missed-->  DUMPING  --grace over-->  KILLING
    STARTING, RUNNING  --told to retire-->   STOPPING --grace over-->  KILLING
    any living state   --Exited-->           WAITING (a restart was ordered) or ENDED

Dumping comes before killing so that a hang shows its stack. Killing ends only with the reaper's report: until then the
old generation might still write, so no new one is started.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from ninelives.spec.phase import Phase

DUMP_GRACE_S = 0.2
"""Time to write a stack; a stopped process never will."""

NS = 1_000_000_000


class State(Enum):
    """Where a worker is in its life."""

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
    """A look at a worker's progress words.

    ``asked_ns`` is when its oldest open request was sent, or when a starting worker was told to go on; None if nothing
    is asked of it. ``slot`` is the one being served.
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
        """By how much a phase is over its time; zero or less if it is not."""
        if starting:
            if reading.phase is Phase.IDLE:
                if reading.asked_ns is None:
                    return 0  # waits for us
                return now_ns - max(reading.since_ns, reading.asked_ns) - int(self.limits_ns[Phase.CONSTRUCT] * scale)
            return now_ns - reading.since_ns - int(self.limits_ns[reading.phase] * scale)
        if reading.asked_ns is None:
            return 0
        # Idle with an open request: it does not wake up (stopped, or starved), which counts as a step.
        phase = Phase.STEP if reading.phase is Phase.IDLE else reading.phase
        return now_ns - max(reading.since_ns, reading.asked_ns) - self.limits_ns[phase]


@dataclass
class WorkerMachine:
    """The state of one worker across its generations."""

    deadlines: Deadlines
    stop_grace_ns: int
    state: State = State.WAITING
    generation: int = 0
    since_ns: int = 0
    restart_at_ns: int = 0
    hung: Reading | None = None
    late_ns: int = 0
    retired: str | None = field(default=None)

    def admitted(self, now_ns: int) -> list[Command]:
        """The queue lets this worker start."""
        assert self.state is State.WAITING
        self.generation += 1
        self.hung, self.retired, self.late_ns = None, None, 0
        self._go(State.STARTING, now_ns)
        return [Command.SPAWN]

    def ready(self, now_ns: int) -> None:
        """All environments are built."""
        if self.state is State.STARTING:
            self._go(State.RUNNING, now_ns)

    def look(self, reading: Reading, now_ns: int, scale: float = 1.0) -> list[Command]:
        """Compare progress with deadlines; the only place where time alone changes the state."""
        if self.state in (State.STARTING, State.RUNNING):
            late = self.deadlines.late_by_ns(reading, self.state is State.STARTING, scale, now_ns)
            if late > 0:
                self.hung, self.late_ns = reading, late
                self._go(State.DUMPING, now_ns)
                return [Command.DUMP]
        elif self._grace_is_over(now_ns):
            self._go(State.KILLING, now_ns)
            return [Command.KILL]
        return []

    def _grace_is_over(self, now_ns: int) -> bool:
        graces = {State.DUMPING: int(DUMP_GRACE_S * NS), State.STOPPING: self.stop_grace_ns}
        return self.state in graces and now_ns - self.since_ns >= graces[self.state]

    def retire(self, reason: str, now_ns: int) -> list[Command]:
        """End this generation on purpose: politely first."""
        if self.state is not State.RUNNING:
            return []
        self.retired = reason
        self._go(State.STOPPING, now_ns)
        return [Command.STOP]

    def kill(self, now_ns: int) -> list[Command]:
        """End this generation at once."""
        if self.state in (State.WAITING, State.ENDED, State.KILLING):
            return []
        self._go(State.KILLING, now_ns)
        return [Command.KILL]

    def exited(self, now_ns: int) -> None:
        """The reaper saw it go. Whoever decides about restarts says ``wait_until`` next."""
        self._go(State.ENDED, now_ns)

    def wait_until(self, restart_at_ns: int, now_ns: int) -> None:
        """A new generation may start at that time."""
        assert self.state is State.ENDED
        self.restart_at_ns = restart_at_ns
        self._go(State.WAITING, now_ns)

    @property
    def is_alive(self) -> bool:
        """Whether a process exists that has not been reaped."""
        return self.state not in (State.WAITING, State.ENDED)

    def _go(self, state: State, now_ns: int) -> None:
        self.state, self.since_ns = state, now_ns
