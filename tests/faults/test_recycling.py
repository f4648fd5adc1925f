"""Workers are replaced on purpose after so many steps, so long, or so much memory: between episodes, one at a time."""

from __future__ import annotations

import time
from functools import partial

import numpy as np
import pytest
from scenes import SEED, of_kind, pool_of

from ninelives.events import FaultSeen, WorkerExited, WorkerReady, WorkerRecycled
from ninelives.testing import CountingEnv, Referee
from ninelives.testing.counting import STEP

EPISODE = 5


def step_until_recycled(pool, referee, times, within_s=15.0):
    """Step until every worker was replaced so often; returns every batch."""
    batches, end, actions = [], time.monotonic() + within_s, np.ones(pool.num_envs, np.int64)
    while min(np.bincount([e.worker for e in of_kind(pool, WorkerRecycled)], minlength=pool.workers)) < times:
        assert time.monotonic() < end
        batches.append(pool.step(actions))
        if referee is not None:
            referee.step(actions, batches[-1])
    return batches


def assert_never_two_at_once(pool):
    away = set()
    for event in pool.events:
        if isinstance(event, WorkerExited):
            away.add(event.worker)
        elif isinstance(event, WorkerReady):
            away.discard(event.worker)
        assert len(away) <= 1


@pytest.mark.parametrize("limit", [{"max_steps": 50}, {"max_age_s": 0.3}], ids=["steps", "age"])
def test_worker_past_its_limit_is_replaced_and_the_learner_loses_a_row_per_slot_at_most(limit):
    referee = Referee(4)
    with pool_of(partial(CountingEnv, EPISODE), start_method="fork", restart_wait_s=5.0, **limit) as pool:
        referee.reset(pool.reset(seed=SEED))
        step_until_recycled(pool, referee, times=1)
        assert referee.masked_rows <= 2 * len(of_kind(pool, WorkerRecycled))
        assert not of_kind(pool, FaultSeen)
        assert_never_two_at_once(pool)
        assert {event.expected for event in of_kind(pool, WorkerExited)} == {True}
        assert all(slot.restarts == 0 for slot in pool.metrics().slots)


def test_episodes_of_different_lengths_end_in_peace_before_their_worker_goes():
    referee = Referee(4)
    with pool_of(Uneven(), start_method="fork", restart_wait_s=5.0, max_steps=50) as pool:
        referee.reset(pool.reset(seed=SEED))
        step_until_recycled(pool, referee, times=1)
        assert not of_kind(pool, FaultSeen)
        assert_never_two_at_once(pool)
    assert referee.valid_rows > referee.masked_rows


class Uneven:
    """Episodes that never end together."""

    def __call__(self):
        env = CountingEnv()
        env._episode_steps = 5 + 4 * env.slot
        return env


@pytest.mark.parametrize("autoreset", ["same_step", "disabled"])
def test_other_ways_of_autoreset_recycle_between_episodes_too(autoreset):
    with pool_of(partial(CountingEnv, EPISODE), start_method="fork", autoreset=autoreset, max_steps=50) as pool:
        pool.reset(seed=SEED)
        end, before = time.monotonic() + 15.0, np.zeros(4)
        while len(of_kind(pool, WorkerRecycled)) < 2:
            assert time.monotonic() < end
            batch = pool.step([1, 1, 1, 1])
            true = batch.valid & (before < EPISODE) & (batch.obs[:, STEP] > 0)
            assert np.array_equal(batch.obs[true, STEP], before[true] + 1)
            before = batch.obs[:, STEP].copy()
            if autoreset == "disabled" and (batch.terminated | ~batch.valid).any():
                over = np.flatnonzero(batch.terminated | ~batch.valid)
                before[over] = pool.reset(slots=over, seed=SEED).obs[over if len(over) == 4 else slice(None), STEP]
        assert not of_kind(pool, FaultSeen)


def test_worker_below_its_limits_is_left_alone():
    settings = {"max_steps": 10_000_000, "max_age_s": 3600.0, "max_rss_bytes": 8 << 30}
    with pool_of(partial(CountingEnv, EPISODE), start_method="fork", **settings) as pool:
        pool.reset(seed=SEED)
        pids, end = pool.worker_pids, time.monotonic() + 1.3
        while time.monotonic() < end:
            pool.step([1, 1, 1, 1])
        assert pool.worker_pids == pids
        assert not of_kind(pool, WorkerRecycled)
