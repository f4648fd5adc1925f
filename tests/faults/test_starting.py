"""Which worker may start when: a limited number at once, with pauses, under a lock that is free after any death."""

from __future__ import annotations

import os
import signal
import threading
from functools import partial
from itertools import pairwise

import pytest
from scenes import Curious, intervals, most_at_once, of_kind, pool_of

import ninelives
from ninelives.events import FaultSeen, PhaseEntered, WorkerReady, WorkerSpawned
from ninelives.testing import CountingEnv, Fragile, When

HELD = """
import sys, ninelives
from ninelives.testing import Fragile, When
class Sink:
    def emit(self, event):
        if getattr(event, "phase", "") == "construct":
            print("holding", flush=True)
ninelives.Pool(Fragile("hang_native", When("construct")), 1, workers=1, start_method="fork", start_lock=sys.argv[1],
             sinks=[Sink()])
"""


@pytest.mark.parametrize("limit", [1, 2])
def test_no_more_workers_construct_at_once_than_allowed(limit, tmp_path):
    diary = tmp_path / "diary"
    env = partial(Curious, str(diary), construct_s=0.15)
    with pool_of(env, num_envs=4, workers=4, start_method="fork", start_concurrency=limit):
        pass
    assert len(intervals(diary)) == 4
    assert most_at_once(intervals(diary)) == limit


def test_restarts_keep_to_the_same_limit(tmp_path):
    diary = tmp_path / "diary"
    env = partial(Curious, str(diary), construct_s=0.1)
    with pool_of(env, num_envs=4, workers=4, start_method="fork", start_concurrency=1) as pool:
        pool.reset(seed=1)
        for pid in pool.worker_pids:
            os.kill(pid, signal.SIGKILL)
        pool.reset(seed=1)
    assert len(intervals(diary)) == 8
    assert most_at_once(intervals(diary)) == 1


def test_pause_between_two_starts_is_kept():
    with pool_of(CountingEnv, num_envs=3, workers=3, start_method="fork", start_delay_s=0.2) as pool:
        times = sorted(event.at_s for event in of_kind(pool, WorkerSpawned))
    assert all(later - earlier > 0.15 for earlier, later in pairwise(times))


def test_start_lock_keeps_constructions_of_two_pools_apart(tmp_path):
    diary, lock = tmp_path / "diary", tmp_path / "lock"
    env = partial(Curious, str(diary), construct_s=0.1)

    def start():
        pool_of(env, num_envs=2, workers=2, start_method="forkserver", start_lock=lock, preload=()).close()

    threads = [threading.Thread(target=start) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(intervals(diary)) == 4
    assert most_at_once(intervals(diary)) == 1


@pytest.mark.parametrize("fault", ["kill_self", "hang_native", "raise_error"])
def test_start_lock_is_free_again_when_its_holder_breaks(fault, tmp_path):
    lock = str(tmp_path / "lock")
    env = Fragile(fault, When("construct", slots=(0,)))
    settings = {"num_envs": 2, "workers": 2, "start_method": "fork", "start_lock": lock, "construct_timeout_s": 0.5}
    with pool_of(env, **settings) as pool:
        assert [fault.phase for fault in of_kind(pool, FaultSeen)] == ["construct"]
        with pool_of(CountingEnv, **settings) as other:
            assert other.reset(seed=1).valid.all()


def test_start_lock_is_free_again_when_the_whole_program_is_killed(tmp_path, run_program):
    lock = tmp_path / "lock"
    program = run_program("-c", HELD, lock)
    program.await_line("holding")
    later = threading.Timer(0.2, program.kill)
    later.start()
    with pool_of(CountingEnv, start_method="fork", start_lock=lock) as pool:
        assert pool.reset(seed=1).valid.all()
    later.join()


def test_start_lock_in_a_missing_directory_is_refused_before_any_process_starts(tmp_path):
    with pytest.raises(ninelives.ConfigError, match="start_lock"):
        pool_of(CountingEnv, start_method="fork", start_lock=tmp_path / "nowhere" / "lock")


def test_worker_whose_construction_fails_does_not_hold_up_the_others():
    env = Fragile("raise_error", When("construct", slots=(0,), generations=(1, 2)))
    settings = {"num_envs": 3, "workers": 3, "start_method": "fork", "start_concurrency": 1, "backoff_s": 0.3}
    with pool_of(env, **settings) as pool:
        ready = [event.worker for event in of_kind(pool, WorkerReady)]
    assert ready == [1, 2, 0]


def test_start_is_reported_worker_by_worker():
    with pool_of(CountingEnv, num_envs=3, workers=3, start_method="fork", start_concurrency=1) as pool:
        assert [(event.started, event.total) for event in of_kind(pool, WorkerSpawned)] == [(1, 3), (2, 3), (3, 3)]
        assert [(event.ready, event.total) for event in of_kind(pool, WorkerReady)] == [(1, 3), (2, 3), (3, 3)]
        assert {event.phase for event in of_kind(pool, PhaseEntered)} <= {"import", "construct"}


def test_preload_of_a_missing_module_is_refused_with_its_traceback():
    with pytest.raises(ninelives.ConfigError, match=r"no_such_module_anywhere(.|\n)*ModuleNotFoundError"):
        pool_of(CountingEnv, preload=("no_such_module_anywhere",))
