"""The life cycle of a worker, on a clock that only the tests advance."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ninelives.spec.phase import Phase
from ninelives.supervise.machine import DUMP_GRACE_S, NS, Command, Deadlines, Reading, WorkerMachine, WorkerState

SECONDS = {phase: 1 + int(phase) for phase in Phase if phase is not Phase.IDLE}
DEADLINES = Deadlines({phase: seconds * NS for phase, seconds in SECONDS.items()})
STOP_GRACE_S = 2
WORKING = [phase for phase in Phase if phase is not Phase.IDLE]


def new_machine():
    return WorkerMachine(DEADLINES, STOP_GRACE_S * NS)


def running_machine():
    machine = new_machine()
    machine.admitted(0)
    machine.ready(0)
    return machine


def at(seconds):
    return int(seconds * NS)


# ---- deadlines -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", WORKING)
@pytest.mark.parametrize("starting", [True, False])
def test_every_phase_has_its_own_deadline(phase, starting):
    reading = Reading(phase, since_ns=at(100), asked_ns=at(100))
    limit = 100 + SECONDS[phase]
    assert DEADLINES.late_by_ns(reading, starting, 1.0, at(limit)) <= 0
    assert DEADLINES.late_by_ns(reading, starting, 1.0, at(limit + 0.5)) == at(0.5)


@pytest.mark.parametrize("phase", WORKING)
def test_starts_that_share_cores_have_longer_and_steps_have_not(phase):
    reading = Reading(phase, since_ns=0, asked_ns=0)
    just_late = at(SECONDS[phase]) + 1
    assert DEADLINES.late_by_ns(reading, True, 3.0, just_late) < 0
    assert DEADLINES.late_by_ns(reading, True, 3.0, at(3 * SECONDS[phase]) + 1) == 1
    assert DEADLINES.late_by_ns(reading, False, 3.0, just_late) == 1


def test_a_worker_that_waits_for_the_parent_is_never_late():
    waiting_at_start = Reading(Phase.IDLE, since_ns=0, asked_ns=None)
    nothing_asked = Reading(Phase.STEP, since_ns=0, asked_ns=None)
    assert DEADLINES.late_by_ns(waiting_at_start, True, 1.0, at(1e6)) <= 0
    assert DEADLINES.late_by_ns(waiting_at_start, False, 1.0, at(1e6)) <= 0
    assert DEADLINES.late_by_ns(nothing_asked, False, 1.0, at(1e6)) <= 0


def test_a_worker_that_does_not_wake_up_for_a_request_is_late_after_the_time_of_a_step():
    stopped = Reading(Phase.IDLE, since_ns=0, asked_ns=at(50))
    limit = 50 + SECONDS[Phase.STEP]
    assert DEADLINES.late_by_ns(stopped, False, 1.0, at(limit)) <= 0
    assert DEADLINES.late_by_ns(stopped, False, 1.0, at(limit) + 1) == 1


def test_each_slot_of_a_group_has_the_whole_time_of_a_step():
    third_slot = Reading(Phase.STEP, since_ns=at(100), asked_ns=at(50))
    assert DEADLINES.late_by_ns(third_slot, False, 1.0, at(100 + SECONDS[Phase.STEP])) <= 0


# ---- a hang, step by step --------------------------------------------------------------------------------------------


def test_a_hung_worker_is_asked_for_its_stack_and_killed_when_it_had_time_to_write_it():
    machine = running_machine()
    hang = Reading(Phase.STEP, since_ns=at(10), asked_ns=at(10))
    late = at(10 + SECONDS[Phase.STEP]) + 1
    assert machine.look(hang, late - 1) == []
    assert machine.look(hang, late) == [Command.DUMP]
    assert (machine.hung, machine.late_ns) == (hang, 1)
    assert machine.look(hang, late + at(DUMP_GRACE_S) - 1) == []
    assert machine.look(hang, late + at(DUMP_GRACE_S)) == [Command.KILL]
    assert machine.look(hang, at(1e6)) == [], "killed once; now the reaper has the word"
    assert machine.is_alive
    machine.exited(at(1e6))
    assert not machine.is_alive


def test_an_answer_after_the_deadline_comes_too_late():
    machine = running_machine()
    machine.look(Reading(Phase.STEP, 0, 0), at(100))
    idle = Reading(Phase.IDLE, at(100), None)
    assert machine.look(idle, at(100 + DUMP_GRACE_S)) == [Command.KILL]


def test_a_condemned_worker_is_killed_at_once_and_its_next_generation_is_not_condemned():
    machine = running_machine()
    assert machine.condemn("wild writes", at(5)) == [Command.KILL]
    assert machine.condemn("wild writes", at(6)) == []
    assert machine.condemned == "wild writes"
    machine.exited(at(7))
    machine.wait_until(at(7), at(7))
    machine.admitted(at(7))
    assert machine.condemned == ""


def test_a_retired_worker_is_asked_politely_and_killed_after_its_grace():
    machine = running_machine()
    idle = Reading(Phase.IDLE, 0, None)
    assert machine.retire("too old", at(5)) == [Command.STOP]
    assert machine.retire("too old", at(5)) == []
    assert machine.look(idle, at(5 + STOP_GRACE_S) - 1) == []
    assert machine.look(idle, at(5 + STOP_GRACE_S)) == [Command.KILL]
    assert machine.retired == "too old"


def test_a_new_generation_remembers_nothing_of_the_old_one():
    machine = running_machine()
    machine.look(Reading(Phase.STEP, 0, 0), at(100))
    machine.exited(at(101))
    machine.wait_until(at(105), at(101))
    assert machine.restart_at_ns == at(105)
    assert machine.admitted(at(105)) == [Command.SPAWN]
    assert (machine.generation, machine.hung, machine.retired, machine.late_ns) == (2, None, None, 0)


# ---- any life at all -------------------------------------------------------------------------------------------------


class AnyLife(RuleBasedStateMachine):
    """Drives a machine as the supervisor does, next to a model of the process it commands."""

    @initialize()
    def begin(self):
        self.machine, self.now = new_machine(), at(1000)
        self.process = None  # the generation of the living process
        self.killed = False
        self.phase, self.since, self.asked = Phase.IDLE, self.now, None
        self.dumped_at = self.stopped_at = None

    def obey(self, commands):
        for command in commands:
            if command is Command.SPAWN:
                assert self.process is None, "two generations at once"
                self.process, self.killed = self.machine.generation, False
                self.dumped_at = self.stopped_at = None
                self.enter(Phase.IMPORT)
            elif command is Command.DUMP:
                self.dumped_at = self.now
            elif command is Command.STOP:
                self.stopped_at = self.now
            else:
                assert not self.killed, "killed twice"
                self.killed = True
            assert self.process is not None, f"{command} without a process"

    def enter(self, phase):
        self.phase, self.since = phase, self.now

    def lateness(self):
        reading = Reading(self.phase, self.since, self.asked)
        return DEADLINES.late_by_ns(reading, self.machine.state is WorkerState.STARTING, 1.0, self.now)

    @precondition(lambda self: self.machine.state is WorkerState.WAITING)
    @rule()
    def admit(self):
        before = self.machine.generation
        self.obey(self.machine.admitted(self.now))
        assert self.machine.generation == before + 1
        assert self.process == before + 1

    @precondition(lambda self: self.process is not None)
    @rule(phase=st.sampled_from(Phase), is_asked=st.booleans())
    def work(self, phase, is_asked):
        self.enter(phase)
        self.asked = self.now if is_asked else None

    @precondition(lambda self: self.process is not None)
    @rule()
    def become_ready(self):
        self.machine.ready(self.now)
        assert self.machine.state is not WorkerState.STARTING

    @rule(seconds=st.sampled_from([0.01, DUMP_GRACE_S, 1.0, 3.0, 10.0]))
    def let_time_pass(self, seconds):
        self.now += at(seconds)

    @rule()
    def look(self):
        before = self.machine.state
        was_late = before in (WorkerState.STARTING, WorkerState.RUNNING) and self.lateness() > 0
        commands = self.machine.look(Reading(self.phase, self.since, self.asked), self.now)
        self.obey(commands)
        assert (Command.DUMP in commands) == was_late, "every late phase, and only a late phase, is dumped"
        if Command.KILL in commands:
            dumped = before is WorkerState.DUMPING and self.now - self.dumped_at >= at(DUMP_GRACE_S)
            stopped = before is WorkerState.STOPPING and self.now - self.stopped_at >= at(STOP_GRACE_S)
            assert dumped or stopped, "no worker is killed without having been asked first"

    @rule()
    def retire(self):
        was_running = self.machine.state is WorkerState.RUNNING
        commands = self.machine.retire("for a reason", self.now)
        self.obey(commands)
        assert commands == ([Command.STOP] if was_running else [])

    @precondition(lambda self: self.process is not None)
    @rule()
    def die(self):
        self.process = None
        self.machine.exited(self.now)

    @precondition(lambda self: self.machine.state is WorkerState.ENDED)
    @rule(delay=st.integers(0, 5))
    def order_a_restart(self, delay):
        self.machine.wait_until(self.now + at(delay), self.now)

    @precondition(lambda self: self.process is not None)
    @rule()
    def hang_forever(self):
        """Whatever it was doing: looked at often enough, a hung worker ends up killed, within a bound."""
        self.phase, self.asked = Phase.STEP, self.since
        for _ in range(3):
            self.now += at(max(SECONDS.values()) + STOP_GRACE_S)
            self.obey(self.machine.look(Reading(self.phase, self.since, self.asked), self.now))
        assert self.killed
        assert self.machine.state is WorkerState.KILLING

    @invariant()
    def a_living_process_is_known_and_a_dead_one_is_not_missed(self):
        if hasattr(self, "machine"):
            assert self.machine.is_alive == (self.process is not None)
            assert self.process in (None, self.machine.generation)

    @invariant()
    def no_start_before_the_reaper_spoke(self):
        if hasattr(self, "machine") and self.process is not None:
            with pytest.raises(AssertionError):
                self.machine.admitted(self.now)
            with pytest.raises(AssertionError):
                self.machine.wait_until(self.now, self.now)


TestAnyLife = AnyLife.TestCase
