from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ninelives.supervise.admission import Admission

WORKERS = range(5)


class Starts(RuleBasedStateMachine):
    """Workers ask, are admitted, and end their starts well or badly, in any order."""

    @initialize(at_once=st.integers(1, 3), delay=st.sampled_from([0.0, 0.5, 2.0]))
    def begin(self, at_once, delay):
        self.admission = Admission(at_once, delay)
        self.at_once, self.delay, self.now = at_once, delay, 100.0
        self.waiting, self.starting, self.last = [], set(), None

    @rule(worker=st.sampled_from(WORKERS))
    def ask(self, worker):
        self.admission.ask(worker)
        if worker not in self.waiting and worker not in self.starting:
            self.waiting.append(worker)

    @rule(seconds=st.sampled_from([0.1, 0.5, 3.0]))
    def let_time_pass(self, seconds):
        self.now += seconds

    @rule()
    def admit_all_that_may_start(self):
        while self.admission.could_admit(self.now):
            worker = self.admission.admit(self.now)
            assert worker == self.waiting.pop(0), "first come, first served: none starves"
            assert self.last is None or self.now >= self.last + self.delay, "the pause between starts is kept"
            self.starting.add(worker)
            self.last = self.now
        paused = self.last is not None and self.now < self.last + self.delay
        assert not self.waiting or len(self.starting) == self.at_once or paused, "no worker waits without a reason"

    @precondition(lambda self: self.starting)
    @rule(data=st.data())
    def end_a_start(self, data):
        worker = data.draw(st.sampled_from(sorted(self.starting)))
        self.admission.done(worker)
        self.starting.remove(worker)

    @rule(worker=st.sampled_from(WORKERS))
    def give_up(self, worker):
        self.admission.done(worker)
        self.starting.discard(worker)
        if worker in self.waiting:
            self.waiting.remove(worker)

    @invariant()
    def never_more_than_allowed_start_at_once(self):
        if hasattr(self, "admission"):
            assert self.admission.starting == self.starting
            assert len(self.starting) <= self.at_once


TestStarts = Starts.TestCase


@given(st.integers(1, 3))
def test_a_start_that_always_fails_does_not_keep_the_others_from_starting(at_once):
    admission, started, now = Admission(at_once, 0.0), [], 0.0
    for worker in WORKERS:
        admission.ask(worker)
    for _ in range(20):
        now += 1
        while admission.could_admit(now):
            worker = admission.admit(now)
            started.append(worker)
            if worker == 0:
                admission.done(worker)
                admission.ask(worker)  # it failed and wants to try again
                break
        for worker in set(admission.starting) - {0}:
            admission.done(worker)
    assert set(started) == set(WORKERS)
