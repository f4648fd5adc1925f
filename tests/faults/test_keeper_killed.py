"""The keeper of all workers is killed: every worker goes with it, and the pool starts them again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from scenes import GUILTY, SEED, actions_at, bury, deadlines, keeper_of, kill_keeper, of_kind, pool_of

import ninelives
from ninelives.events import FaultSeen, KeeperLost
from ninelives.testing import CountingEnv, Fragile, Referee, When, leftovers

STARTS_S = 15.0


def go_on(pool, referee, first, steps=10):
    """Step until every row is valid again; the referee judges all of them."""
    end = time.monotonic() + STARTS_S
    for step in range(first, first + 10_000):
        batch = pool.step(actions_at(step))
        referee.step(actions_at(step), batch)
        if step >= first + steps and batch.valid.all():
            return
        assert time.monotonic() < end


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_pool_goes_on_after_its_keeper_was_killed(method):
    with pool_of(CountingEnv, start_method=method) as pool:
        referee = Referee(4)
        referee.reset(pool.reset(seed=SEED))
        referee.step(actions_at(1), pool.step(actions_at(1)))
        before = pool.worker_pids
        kill_keeper(pool)
        go_on(pool, referee, first=2)
        assert len(of_kind(pool, KeeperLost)) == 1
        assert set(before).isdisjoint(pool.worker_pids)
        assert {fault.phase for fault in of_kind(pool, FaultSeen)} <= {"idle", "step"}


def test_pool_goes_on_after_its_keeper_was_killed_under_a_step():
    with pool_of(Fragile("nap", When("step", at=2, slots=(GUILTY,))), start_method="fork") as pool:
        referee = Referee(4)
        referee.reset(pool.reset(seed=SEED))
        referee.step(actions_at(1), pool.step(actions_at(1)))
        pool.send(actions_at(2))
        kill_keeper(pool)
        referee.step(actions_at(2), pool.recv())
        go_on(pool, referee, first=3)


def test_keeper_killed_again_and_again_is_replaced_each_time():
    with pool_of(CountingEnv, start_method="fork") as pool:
        referee = Referee(4)
        referee.reset(pool.reset(seed=SEED))
        for _ in range(3):
            kill_keeper(pool)
            go_on(pool, referee, first=1, steps=3)
        assert len(of_kind(pool, KeeperLost)) == 3


def test_lost_keeper_raises_when_asked_to():
    with pool_of(CountingEnv, start_method="fork", on_fault="raise") as pool:
        referee = Referee(4)
        referee.reset(pool.reset(seed=SEED))
        kill_keeper(pool)
        with pytest.raises(ninelives.WorkerCrashedError, match="keeper"):
            go_on(pool, referee, first=1)


@pytest.mark.parametrize("fault", ["have_child", "have_daemon"])
def test_children_of_workers_that_went_with_their_keeper_are_ended_too(fault):
    with pool_of(Fragile(fault, When("construct", slots=(GUILTY,))), start_method="fork") as pool:
        pool.reset(seed=SEED)
        sleepers = {process.pid for process in leftovers.descendants() if process.command.startswith("sleep")}
        assert len(sleepers) == 1
        kill_keeper(pool)
        pool.reset(seed=SEED)
        try:
            bury(sleepers, within_s=2.0)
        finally:
            for pid in [process.pid for process in leftovers.descendants() if process.pid in sleepers]:
                os.kill(pid, signal.SIGKILL)
                bury([pid])


def test_keeper_that_is_only_stopped_delays_and_breaks_nothing():
    with pool_of(CountingEnv, start_method="fork") as pool:
        referee = Referee(4)
        referee.reset(pool.reset(seed=SEED))
        keeper = keeper_of(pool)
        os.kill(keeper, signal.SIGSTOP)
        go_on(pool, referee, first=1)
        os.kill(keeper, signal.SIGCONT)
        go_on(pool, referee, first=100)


def test_close_is_bounded_while_the_keeper_is_stopped():
    pool = pool_of(CountingEnv, start_method="fork", close_timeout_s=1.0)
    pool.reset(seed=SEED)
    pids = pool.worker_pids
    os.kill(keeper_of(pool), signal.SIGSTOP)
    began = time.monotonic()
    pool.close()
    assert time.monotonic() - began < 2.0
    bury(pids)


def test_keeper_that_is_stopped_while_a_worker_hangs_is_replaced():
    env = Fragile("hang_sleeping", When("step", at=2, slots=(GUILTY,)))
    with pool_of(env, start_method="fork", **deadlines("step")) as pool:
        referee = Referee(4)
        referee.reset(pool.reset(seed=SEED))
        keeper, pids = keeper_of(pool), pool.worker_pids
        os.kill(keeper, signal.SIGSTOP)
        watchdog = threading.Timer(20.0, os.kill, (keeper, signal.SIGCONT))
        watchdog.start()
        go_on(pool, referee, first=1)
        watchdog.cancel()
        assert of_kind(pool, KeeperLost)
        bury(pids)


STOOD_STILL = """
import itertools, socket, subprocess, time
from ninelives.supervise.child import PR_SET_CHILD_SUBREAPER, prctl
from ninelives.supervise.keeper import Keeper

prctl(PR_SET_CHILD_SUBREAPER, 1)
sleeper = subprocess.Popen(["sleep", "86400"])
hours = itertools.count(0, 3600)
time.monotonic = lambda: next(hours)
Keeper(socket.socketpair()[0], 0, "fork", None).sweep()
print(sleeper.pid)
"""


def test_a_keeper_ends_everything_also_on_a_machine_that_stood_still_meanwhile():
    done = subprocess.run([sys.executable, "-c", STOOD_STILL], capture_output=True, text=True, timeout=30, check=True)
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)
