"""Arguments of pool calls, limits of workers and deadlines: refused, read and compared without a process."""

import os
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninelives import ConfigError, PoolOptions, UsageError
from ninelives.pool.data.checks import checked_slots, seeds_for, whole_groups
from ninelives.pool.workers.limits import LOG_LIMIT_BYTES, overdue, trim_log
from ninelives.pool.workers.worker import WorkerProcess, deadlines_of
from ninelives.spec.phase import Phase
from ninelives.supervise.budget import Backoff
from ninelives.supervise.machine import NS, WorkerMachine

ALL = np.arange(4)


@given(st.integers(0, 2**62))
def test_one_seed_gives_each_slot_its_own_by_its_number(seed):
    assert seeds_for(seed, ALL) == [seed, seed + 1, seed + 2, seed + 3]
    assert seeds_for(np.int64(seed), np.array([3, 1])) == [seed + 3, seed + 1]


def test_a_list_of_seeds_is_taken_slot_by_slot_and_none_means_unseeded():
    assert seeds_for([5, None, 7, 0], ALL) == [5, None, 7, 0]
    assert seeds_for(np.array([5, 6]), np.array([2, 3])) == [5, 6]
    assert seeds_for(None, ALL) == [None] * 4


@pytest.mark.parametrize("seed", [[1, 2], [], [1] * 5])
def test_a_list_of_another_length_is_refused(seed):
    with pytest.raises(ConfigError, match=f"seed has {len(seed)} entries for 4 slots"):
        seeds_for(seed, ALL)


@pytest.mark.parametrize("seed", [-1, [0, 1, 2, -3], 2**63, [0, 1, 2, 1.5], "word", [0, 1, 2, "3"]])
def test_what_no_environment_takes_for_a_seed_is_refused(seed):
    with pytest.raises(ConfigError, match="seed"):
        seeds_for(seed, ALL)


def test_slots_outside_the_pool_or_named_twice_are_refused():
    assert checked_slots([2, 0], 4).tolist() == [2, 0]
    with pytest.raises(UsageError, match=r"slots \[0, 4\] are outside 0..3"):
        checked_slots([0, 4], 4)
    with pytest.raises(UsageError, match=r"slots \[-1\] are outside"):
        checked_slots([-1], 4)
    with pytest.raises(UsageError, match=r"slots \[1, 1\] name a slot twice"):
        checked_slots([1, 1], 4)


def test_only_whole_groups_can_be_sent():
    group_slots, group_of = [np.array([0, 1]), np.array([2]), np.array([3])], np.array([0, 0, 1, 2])
    assert whole_groups(np.array([3, 0, 1]), group_of, group_slots) == [2, 0]
    with pytest.raises(UsageError, match=r"slots \[1, 2\] are not whole groups"):
        whole_groups(np.array([1, 2]), group_of, group_slots)


# ---- deadlines and limits --------------------------------------------------------------------------------------------


def test_every_phase_has_the_deadline_of_its_setting():
    limits = deadlines_of(PoolOptions(step_timeout_s=2, reset_timeout_s=3, import_timeout_s=0.5)).limits_ns
    assert set(limits) == set(Phase) - {Phase.IDLE}
    assert (limits[Phase.STEP], limits[Phase.RESET], limits[Phase.IMPORT]) == (2 * NS, 3 * NS, NS // 2)


def test_no_deadline_at_all_can_be_asked_for():
    assert deadlines_of(PoolOptions(step_timeout_s=float("inf"))).limits_ns[Phase.STEP] > 365 * 24 * 3600 * NS


def running(index, ready_s=0.0, jitter=1.0, pid=None):
    """A member that became ready at a time."""
    machine = WorkerMachine(deadlines_of(PoolOptions()), NS)
    machine.admitted(0)
    machine.ready(0)
    member = WorkerProcess(index, index, machine, Backoff(0.1, 1.0, random.Random(0)), jitter, pid=pid)
    member.ready_ns = int(ready_s * NS)
    return member


def due(members, now_s=0.0, steps=0, **limits):
    return overdue(members, PoolOptions.of(limits), int(now_s * NS), lambda member: steps)


def test_nobody_is_replaced_without_a_limit():
    assert due([running(0)], now_s=1e6, steps=10**9) is None


def test_a_worker_is_replaced_for_its_steps_its_age_or_its_size_and_the_reason_is_told():
    assert due([running(0)], steps=100, max_steps=100) == (0, "served 100 steps")
    assert due([running(0)], steps=99, max_steps=100) is None
    assert due([running(0, ready_s=5)], now_s=15, max_age_s=10) == (0, "10 s old")
    assert due([running(0, ready_s=5)], now_s=14, max_age_s=10) is None
    index, reason = due([running(0, pid=os.getpid())], max_rss_bytes=1)
    assert index == 0
    assert "MB" in reason


def test_jitter_keeps_workers_from_being_replaced_together():
    assert due([running(0, jitter=1.1)], steps=105, max_steps=100) is None
    assert due([running(0, jitter=1.1)], steps=111, max_steps=100) is not None


def test_the_oldest_comes_first_so_that_nobody_is_forgotten():
    members = [running(0, ready_s=9), running(1, ready_s=2), running(2, ready_s=5)]
    assert due(members, steps=10, max_steps=1)[0] == 1


def test_a_worker_that_is_not_running_is_left_alone():
    member = running(0)
    member.machine.retire("already", 0)
    assert due([member], steps=10, max_steps=1) is None


def test_a_log_beyond_its_limit_is_emptied_and_smaller_ones_are_kept(tmp_path):
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_text("kept")
    large.touch()
    os.truncate(large, LOG_LIMIT_BYTES + 1)
    for log in (small, large, tmp_path / "absent"):
        trim_log(log)
    assert small.read_text() == "kept"
    assert large.stat().st_size == 0
