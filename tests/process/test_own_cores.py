"""``pin_workers``: if there are as many workers as cores, each has its own core, and so has its replacement."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

import ninelives
from ninelives import host
from ninelives.testing import CountingEnv

ACTIONS = np.zeros(4, np.int64)


@pytest.fixture
def two_cores():
    """This test's program may use two cores, however many there are."""
    before = os.sched_getaffinity(0)
    if len(before) < 2 or host.cores() < 2:
        pytest.skip("this machine has one core")
    os.sched_setaffinity(0, sorted(before)[:2])
    yield set(sorted(before)[:2])
    os.sched_setaffinity(0, before)


def cores_of(pool):
    return [os.sched_getaffinity(pid) for pid in pool.worker_pids]


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_each_of_as_many_workers_as_cores_has_its_own(two_cores, method):
    with ninelives.Pool(CountingEnv, 4, workers=2, start_method=method, pin_workers=True) as pool:
        pool.reset(seed=0)
        assert cores_of(pool) == [{core} for core in sorted(two_cores)]
        assert os.sched_getaffinity(0) == two_cores, "the program itself is left alone"


@pytest.mark.parametrize("spares", [0, 1])
def test_the_replacement_of_a_dead_worker_takes_its_core(two_cores, spares):
    with ninelives.Pool(CountingEnv, 4, workers=2, spares=spares, pin_workers=True) as pool:
        pool.reset(seed=0)
        expected, victim = cores_of(pool), pool.worker_pids[1]
        os.kill(victim, signal.SIGKILL)
        pool.step(ACTIONS)
        assert pool.worker_pids[1] != victim
        assert cores_of(pool) == expected


@pytest.mark.parametrize(("workers", "pin"), [(1, True), (4, True), (2, False)])
def test_other_workers_run_wherever_the_system_puts_them(two_cores, workers, pin):
    with ninelives.Pool(CountingEnv, 4, workers=workers, pin_workers=pin) as pool:
        pool.reset(seed=0)
        assert all(cores == two_cores for cores in cores_of(pool))
