"""``close()`` returns in time, in every state, and leaves nothing: the leak fixture looks after each of these."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time

import pytest
from scenes import GUILTY, SEED, actions_at, crossed, kill_keeper, pool_of

import ninelives
from ninelives.events import PoolClosed, WorkerReady
from ninelives.testing import CountingEnv, Fragile, RecordingSink, When
from ninelives.testing.faults import ENDS, HANGS

CLOSE_S = 0.5
SLACK_S = 1.0
"""What a busy machine may add to the promise."""


def assert_closes_in_time(pool):
    began = time.monotonic()
    pool.close()
    assert time.monotonic() - began < CLOSE_S + SLACK_S


@pytest.mark.parametrize(("fault", "method"), crossed("close", [*ENDS, *HANGS, "raise_error"]))
def test_environment_that_breaks_in_its_own_close_cannot_keep_the_pool_open(fault, method):
    pool = pool_of(Fragile(fault, When("close", slots=(GUILTY,))), start_method=method, close_timeout_s=CLOSE_S)
    pool.reset(seed=SEED)
    assert_closes_in_time(pool)


def test_healthy_environments_are_closed_by_their_own_close(tmp_path):
    marker = tmp_path / "closed"
    pool = pool_of(Fragile("nap", When("close", slots=(GUILTY,), once=str(marker))), start_method="fork")
    pool.close()
    assert marker.exists()


@pytest.mark.parametrize(("fault", "method"), crossed("step", HANGS))
def test_close_ends_a_worker_that_hangs_in_a_step(fault, method):
    pool = pool_of(Fragile(fault, When("step", slots=(GUILTY,))), start_method=method, close_timeout_s=CLOSE_S)
    pool.reset(seed=SEED)
    pool.send(actions_at(1))
    assert_closes_in_time(pool)


def test_close_before_the_first_reset_and_twice():
    pool = pool_of(CountingEnv, start_method="fork", close_timeout_s=CLOSE_S)
    assert_closes_in_time(pool)
    pool.close()
    with pytest.raises(ninelives.ClosedError):
        pool.reset()


def test_close_with_answers_under_way():
    pool = pool_of(CountingEnv, start_method="fork", close_timeout_s=CLOSE_S)
    pool.reset(seed=SEED)
    pool.send(actions_at(1))
    assert_closes_in_time(pool)


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_close_of_idle_workers_that_were_stopped_or_killed(number):
    pool = pool_of(CountingEnv, start_method="fork", close_timeout_s=CLOSE_S)
    pool.reset(seed=SEED)
    for pid in pool.worker_pids:
        os.kill(pid, number)
    assert_closes_in_time(pool)


def test_close_does_not_wait_for_a_worker_whose_exit_report_was_read_and_then_lost():
    """Ctrl-C can interrupt between reading a report and recording it, and an exit is reported only once."""
    pool = pool_of(CountingEnv, start_method="fork", close_timeout_s=40.0)
    pool.reset(seed=SEED)
    dead = set(pool.worker_pids)
    for pid in dead:
        os.kill(pid, signal.SIGKILL)
    while dead:
        dead -= {report.pid for report in pool._runtime.resources.children.reports(0.1) if report.event == "exited"}
    began = time.monotonic()
    pool.close()
    assert time.monotonic() - began < 10.0


@pytest.mark.parametrize(("fault", "method"), crossed("close", ["have_child", "have_daemon", "have_forked_daemon"]))
def test_close_ends_grandchildren_too(fault, method):
    pool = pool_of(Fragile(fault, When("construct")), start_method=method, close_timeout_s=CLOSE_S)
    assert_closes_in_time(pool)


def test_close_while_a_worker_starts_again(tmp_path):
    """The successor of a dead worker hangs in its construction when the pool is closed."""
    pool = pool_of(Restarting(), start_method="fork", close_timeout_s=CLOSE_S, restart_wait_s=0.1)
    pool.reset(seed=SEED)
    pool.step(actions_at(1))
    pool.step(actions_at(2))
    assert_closes_in_time(pool)


class Restarting:
    """Crashes in its first step; later generations never come up."""

    def __call__(self):
        Fragile("hang_sleeping", When("construct", slots=(GUILTY,), generations=(2,)))()
        return Fragile("segfault", When("step", slots=(GUILTY,)))()


@pytest.mark.parametrize(("when", "method"), [("idle", "forkserver"), ("stepping", "fork")])
def test_close_after_the_keeper_was_killed(when, method):
    pool = pool_of(CountingEnv, start_method=method, close_timeout_s=CLOSE_S)
    pool.reset(seed=SEED)
    if when == "stepping":
        pool.send(actions_at(1))
    kill_keeper(pool)
    assert_closes_in_time(pool)


def test_close_reports_how_many_workers_had_to_be_killed():
    sink = RecordingSink()
    pool = pool_of(Fragile("hang_native", When("close", slots=(GUILTY,))), start_method="fork", close_timeout_s=CLOSE_S,
                   sinks=[sink])  # fmt: skip
    pool.close()
    assert [event.killed for event in sink.of(PoolClosed)] == [1]


def test_pool_that_is_forgotten_is_closed_by_the_garbage_collector():
    pool = pool_of(CountingEnv, start_method="fork")
    pool.reset(seed=SEED)
    del pool
    gc.collect()


def test_interrupt_during_start_takes_everything_down():
    """A program that is interrupted while its workers construct leaves nothing and gets its exception."""
    main = threading.main_thread().ident

    class Interrupt(RecordingSink):
        def emit(self, event):
            super().emit(event)
            if isinstance(event, WorkerReady):
                signal.pthread_kill(main, signal.SIGINT)

    env = Fragile("hang_sleeping", When("construct", slots=(2,)))
    with pytest.raises(KeyboardInterrupt):
        pool_of(env, start_method="fork", sinks=[Interrupt()], close_timeout_s=CLOSE_S)
