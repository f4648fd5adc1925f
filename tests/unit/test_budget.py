import random

from hypothesis import given
from hypothesis import strategies as st

from ninelives.supervise.budget import JITTER, Backoff, RestartBudget, SlidingWindow

TIMES = st.lists(st.floats(0, 50), max_size=30).map(sorted)


@given(TIMES, st.integers(0, 5), st.floats(0.5, 20))
def test_a_window_counts_exactly_what_happened_within_its_length(times, limit, length):
    window = SlidingWindow(limit, length)
    for i, now in enumerate(times):
        within = sum(now - length < then for then in times[: i + 1])
        assert window.note(now) == (within <= limit)
        assert window.count(now) == within


@given(TIMES, st.floats(0.5, 20))
def test_a_window_does_not_grow_without_end(times, length):
    window = SlidingWindow(0, length)
    for now in times:
        window.note(now)
    assert window.count(times[-1] + length + 1 if times else 0.0) == 0
    assert not window.times


def test_a_slot_over_its_budget_is_named_and_others_are_not():
    budget = RestartBudget(slots=3, per_slot=2, in_all=100, window_s=10)
    assert budget.note([0, 1], 0.0) == (set(), False)
    assert budget.note([0], 1.0) == (set(), False)
    assert budget.note([0, 2], 2.0) == ({0}, False)
    assert [budget.restarts_of(slot, 2.0) for slot in range(3)] == [3, 1, 1]


def test_old_faults_are_forgiven():
    budget = RestartBudget(slots=1, per_slot=1, in_all=100, window_s=10)
    assert [budget.note([0], now)[0] for now in (0.0, 11.0, 22.0, 23.0)] == [set(), set(), set(), {0}]


def test_the_pool_counts_faults_and_not_slots():
    budget = RestartBudget(slots=8, per_slot=100, in_all=2, window_s=10)
    assert budget.note(range(8), 0.0)[1] is False
    assert budget.note(range(8), 1.0)[1] is False
    assert budget.note([5], 2.0)[1] is True


@given(st.integers(0, 2**32), st.floats(0.001, 5), st.floats(0.001, 100), st.integers(2, 1200))
def test_pauses_double_up_to_the_longest_and_are_shortened_by_the_jitter_at_most(seed, first, longest, faults):
    backoff = Backoff(first, longest, random.Random(seed))
    assert backoff.after_fault(made_progress=False) == 0.0, "the first restart is immediate"
    for number in range(faults - 1):
        pause = backoff.after_fault(made_progress=False)
        full = min(longest, first * 2.0 ** min(number, 60))
        assert (1 - JITTER) * full <= pause <= full


def test_progress_makes_the_next_restart_immediate_again():
    backoff = Backoff(1.0, 60.0, random.Random(1))
    for _ in range(5):
        backoff.after_fault(made_progress=False)
    assert backoff.after_fault(made_progress=True) == 0.0
    assert 0.5 <= backoff.after_fault(made_progress=False) <= 1.0


def test_workers_that_died_together_do_not_come_back_together():
    rng = random.Random(3)
    backoffs = [Backoff(1.0, 60.0, rng) for _ in range(20)]
    for backoff in backoffs:
        backoff.after_fault(made_progress=False)
    assert len({backoff.after_fault(made_progress=False) for backoff in backoffs}) == 20


def test_a_pause_of_zero_stays_zero():
    backoff = Backoff(0.0, 60.0, random.Random(1))
    assert [backoff.after_fault(made_progress=False) for _ in range(4)] == [0.0] * 4
