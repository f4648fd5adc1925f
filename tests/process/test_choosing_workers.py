"""``workers=None``: one environment is measured, and the number of workers follows from what it costs."""

from __future__ import annotations

import time

import numpy as np
import pytest

import ninelives
from ninelives import host
from ninelives.testing import CountingEnv, Fragile, When
from ninelives.testing.counting import EPISODE, SEED, SLOT, STEP


class Cheap(CountingEnv):
    """Costs next to nothing."""


class Waiting(CountingEnv):
    """Waits for something outside."""

    def step(self, action):
        time.sleep(0.004)
        return super().step(action)


class Burning(CountingEnv):
    """Uses its core."""

    def step(self, action):
        end = time.perf_counter() + 0.002
        while time.perf_counter() < end:
            pass
        return super().step(action)


class SlowToBuild(CountingEnv):
    """Too slow to build twice."""

    def __init__(self):
        time.sleep(0.3)
        super().__init__()


def test_few_cheap_environments_share_one_worker():
    with ninelives.Pool(Cheap, 2, start_method="fork") as pool:
        assert pool.workers == 1
        assert "cost less than one more wake-up" in pool.workers_because


@pytest.mark.parametrize("fault", ["segfault", "sys_exit", "hang_native", "raise_error"])
def test_environment_that_breaks_in_a_trial_step_starts_with_its_cost_unknown(fault):
    """Every start has a first step in it: no start would ever succeed if a death in it counted as a failed one."""
    env = Fragile(fault, When("step", at=1, generations=None))
    with ninelives.Pool(env, 2, start_method="fork", start_attempts=1, step_timeout_s=0.5) as pool:
        assert pool.workers == min(2, host.cores())
        assert "cost unknown: it broke in a trial step" in pool.workers_because
        assert np.array_equal(pool.reset(seed=30).obs[:, SEED], [30, 31])


def test_environment_that_breaks_while_it_is_built_is_still_a_failed_start():
    with pytest.raises(ninelives.WorkerStartError, match="SIGSEGV during construct"):
        ninelives.Pool(Fragile("segfault", When("construct")), 2, start_method="fork", start_attempts=1)


def test_environments_that_wait_get_more_workers_than_there_are_cores():
    with ninelives.Pool(Waiting, 3 * host.cores(), start_method="fork") as pool:
        assert pool.workers > host.cores()
        assert "waits" in pool.workers_because


def test_environments_that_burn_get_a_worker_per_core():
    with ninelives.Pool(Burning, 4 * host.cores(), start_method="fork") as pool:
        assert pool.workers == host.cores()
        assert "cores" in pool.workers_because


def test_environment_that_is_slow_to_build_is_not_built_twice_for_a_measurement():
    with ninelives.Pool(SlowToBuild, 2, start_method="fork") as pool:
        assert "slow to build" in pool.workers_because


def test_one_slot_needs_no_measurement():
    with ninelives.Pool(CountingEnv, 1, start_method="fork") as pool:
        assert pool.workers == 1
        assert pool.workers_because == "there is one slot"


@pytest.mark.parametrize("env", [Cheap, Waiting], ids=["cheap", "waiting"])
def test_measured_environment_begins_its_first_episode_unused(env):
    with ninelives.Pool(env, 4, start_method="fork") as pool:
        first = pool.reset(seed=30).obs
    assert np.array_equal(first[:, [SLOT, SEED, EPISODE, STEP]], [[i, 30 + i, 1, 0] for i in range(4)])


def test_number_that_was_asked_for_is_taken():
    with ninelives.Pool(CountingEnv, 3, workers=3, start_method="fork") as pool:
        assert pool.workers == 3
        assert "asked for" in pool.workers_because
