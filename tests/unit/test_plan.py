import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ninelives import ConfigError
from ninelives.spec.plan import SYNC_COST_S, Probe, choose_workers, divide, make_plan

COUNTS = st.integers(1, 40)


@given(st.integers(0, 200), st.integers(1, 50))
def test_things_are_dealt_in_order_completely_and_evenly(count, parts):
    blocks = divide(count, parts)
    assert [thing for block in blocks for thing in block] == list(range(count))
    assert len(blocks) == parts
    assert max(map(len, blocks)) - min(map(len, blocks)) <= 1


def possible_plan(num_envs, workers, groups, batch_size):
    """The plan, or None where these numbers cannot be dealt."""
    try:
        return make_plan(num_envs, workers, groups, batch_size)
    except ConfigError:
        return None


@given(COUNTS, COUNTS, st.none() | COUNTS, st.none() | COUNTS)
def test_every_slot_has_one_group_and_every_group_one_worker(num_envs, workers, groups, batch_size):
    plan = possible_plan(num_envs, workers, groups, batch_size)
    assume(plan is not None)
    assert [slot for slots in plan.group_slots for slot in slots] == list(range(num_envs))
    assert all(plan.group_slots)
    assert plan.workers == workers
    assert sorted(slot for w in range(workers) for slot in plan.slots_of(w)) == list(range(num_envs))
    assert sorted(g for w in range(workers) for g in plan.groups_of(w)) == list(range(len(plan.group_slots)))


@given(COUNTS, COUNTS, st.none() | COUNTS, COUNTS)
def test_a_batch_is_always_a_whole_number_of_equal_groups(num_envs, workers, groups, batch_size):
    plan = possible_plan(num_envs, workers, groups, batch_size)
    assume(plan is not None)
    assert plan.batch_size == batch_size
    assert plan.is_synchronous == (batch_size == num_envs)
    if not plan.is_synchronous:
        (size,) = {len(slots) for slots in plan.group_slots}
        assert batch_size % size == 0


@given(COUNTS, COUNTS, st.none() | COUNTS)
def test_without_a_batch_size_every_batch_holds_every_slot(num_envs, workers, groups):
    assume(workers <= num_envs)
    plan = make_plan(num_envs, workers, groups, None)
    assert plan.is_synchronous
    per_worker = {len(plan.groups_of(w)) for w in range(workers)}
    assert per_worker == {1} if groups is None else max(per_worker) <= groups


@given(COUNTS, COUNTS, COUNTS)
def test_any_smaller_batch_works_without_naming_groups(num_envs, workers, batch_size):
    assume(workers <= num_envs and batch_size < num_envs)
    plan = make_plan(num_envs, workers, None, batch_size)
    assert {len(slots) for slots in plan.group_slots} == {1}, "truly the first that are ready"


@st.composite
def smaller_batches_of_larger_groups(draw):
    """Numbers that are often refused: groups of more than one slot, and a batch that need not be made of them."""
    num_envs = draw(st.integers(4, 40))
    workers = draw(st.integers(1, num_envs // 2))
    groups = draw(st.integers(1, num_envs // workers - 1))
    return num_envs, workers, groups, draw(st.integers(1, num_envs - 1))


@given(smaller_batches_of_larger_groups())
def test_the_advice_of_a_refused_batch_size_works(numbers):
    num_envs, workers, groups, batch_size = numbers
    assume(possible_plan(num_envs, workers, groups, batch_size) is None)
    with pytest.raises(ConfigError, match=f"batch_size={batch_size}") as refusal:
        make_plan(num_envs, workers, groups, batch_size)
    advised = int(re.search(r"groups=(\d+) for groups of one slot", str(refusal.value))[1])
    assert possible_plan(num_envs, workers, advised, batch_size) is not None


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((0, 1, None, None), "num_envs=0"),
        ((10**8, 1, None, None), "num_envs=100000000 must be at most 65536"),
        ((4, 0, None, None), "workers=0 must be between 1 and num_envs=4"),
        ((4, 5, None, None), "workers=5 must be between 1 and num_envs=4"),
        ((4, 2, 0, None), "groups=0"),
        ((4, 2, None, 5), "batch_size=5 must be between 1 and num_envs=4"),
        ((4, 2, None, 0), "batch_size=0 must be between 1 and num_envs=4"),
        ((4, 2, None, -1), "batch_size=-1"),
    ],
)
def test_impossible_numbers_are_refused_by_name_with_what_fits(numbers, words):
    with pytest.raises(ConfigError, match=words):
        make_plan(*numbers)


GB = 1 << 30
CHEAP = Probe(step_s=1e-6, cpu_share=1.0, rss_bytes=50 << 20)
COSTLY = Probe(step_s=1e-3, cpu_share=1.0, rss_bytes=50 << 20)


def test_steps_cheaper_than_a_wake_up_get_one_worker_and_the_reason_says_so():
    choice = choose_workers(8, cores=4, free_bytes=8 * GB, probe=CHEAP)
    assert choice.workers == 1
    assert "8 steps of 1.0 us" in choice.because


def test_costly_steps_get_a_worker_per_core():
    choice = choose_workers(8, cores=4, free_bytes=8 * GB, probe=COSTLY)
    assert choice.workers == 4
    assert "4 cores" in choice.because
    assert "1000 us a step" in choice.because


def test_steps_that_wait_for_something_else_get_more_workers_than_cores():
    waiting = Probe(step_s=1e-2, cpu_share=0.1, rss_bytes=50 << 20)
    choice = choose_workers(64, cores=2, free_bytes=64 * GB, probe=waiting)
    assert choice.workers == 20
    assert "waits 90%" in choice.because


def test_memory_limits_the_number_of_workers_and_is_named():
    huge = Probe(step_s=1e-3, cpu_share=1.0, rss_bytes=2 * GB)
    choice = choose_workers(8, cores=8, free_bytes=8 * GB, probe=huge)
    assert choice.workers == 3
    assert "memory for 3 workers" in choice.because


def test_an_environment_too_slow_to_measure_gets_a_worker_per_core():
    choice = choose_workers(8, cores=4, free_bytes=8 * GB, probe=Probe(None, 1.0, 50 << 20))
    assert choice.workers == 4
    assert "slow to build" in choice.because


@given(
    COUNTS, st.integers(1, 64), st.integers(0, 1 << 40),
    st.builds(Probe, st.none() | st.floats(1e-9, 10), st.floats(0, 1), st.integers(0, 1 << 36)),
)  # fmt: skip
def test_whatever_was_measured_the_choice_can_be_dealt(num_envs, cores, free, probe):
    choice = choose_workers(num_envs, cores, free, probe)
    assert 1 <= choice.workers <= num_envs
    assert choice.because
    assert make_plan(num_envs, choice.workers, None, None).workers == choice.workers


@given(st.integers(2, 40), st.integers(2, 64))
def test_more_work_never_means_fewer_workers(num_envs, cores):
    steps = [SYNC_COST_S * factor for factor in (0.01, 0.1, 1, 10)]
    workers = [choose_workers(num_envs, cores, 64 * GB, Probe(step, 1.0, 1 << 20)).workers for step in steps]
    assert workers == sorted(workers)
