"""A score counts whole episodes, a fixed number per slot, with a confidence interval."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from walks import Silent, Walk

from ninelives.errors import ConfigError, NinelivesError
from ninelives.testing import Fragile, When
from ninelives.train.evaluate import EvaluatedEpisode, Score, evaluate, wilson


class Fixed:
    """Always takes one action, and records the starts of episodes."""

    def __init__(self, action):
        self._action = action
        self.starts = []

    def begin(self, rows, *, greedy, seed):
        self.rows, self.greedy = rows, greedy

    def act(self, batch, starts):
        self.starts.append((np.asarray(batch.obs)[:, 0].copy(), starts.copy()))
        return np.full(self.rows, self._action)


def test_every_slot_plays_its_own_number_of_episodes():
    score = evaluate(Fixed(2), Walk, episodes=10, n_envs=4, workers=2, seed=3)
    assert [sum(one.slot == slot for one in score.episodes) for slot in range(4)] == [3, 3, 2, 2]
    assert {one.length for one in score.episodes} == {3, 30}
    assert all(one.total == 2 * one.length for one in score.episodes)
    assert score.cut == 0


def test_the_score_depends_on_the_seed_and_not_on_workers():
    scores = [evaluate(Fixed(1), Walk, episodes=8, n_envs=4, workers=n, seed=5) for n in (1, 3)]
    assert scores[0] == scores[1]
    assert scores[0] != evaluate(Fixed(1), Walk, episodes=8, n_envs=4, workers=1, seed=6)


def test_the_policy_knows_where_episodes_start():
    policy = Fixed(0)
    evaluate(policy, Walk, episodes=6, n_envs=2, workers=1)
    for obs, starts in policy.starts:
        assert np.array_equal(obs == 0, starts)


def test_success_is_what_the_environment_says():
    score = evaluate(Fixed(0), Walk, episodes=12, n_envs=2, workers=1, seed=1)
    short = sum(one.length == 3 for one in score.episodes)
    assert 0 < short < 12
    assert (score.successes, score.success_rate.trials) == (short, 12)


def test_success_can_be_a_return():
    score = evaluate(Fixed(1), Silent, episodes=12, n_envs=2, workers=1, seed=1, success=30.0)
    assert score.successes == sum(one.length == 30 for one in score.episodes)


def test_success_may_be_unknown():
    score = evaluate(Fixed(1), Silent, episodes=2, n_envs=2, workers=1)
    assert score.successes is None
    assert score.success_rate is None


def test_a_killed_worker_changes_no_score():
    undisturbed = evaluate(Fixed(1), Walk, episodes=20, n_envs=4, workers=2, seed=2)
    killed = []

    def kill_once(pool, batch):
        if not killed and batch.obs[0] > 1:
            killed.append(os.kill(pool.worker_pids[0], signal.SIGKILL))

    assert evaluate(Fixed(1), Walk, episodes=20, n_envs=4, workers=2, seed=2, on_batch=kill_once) == undisturbed
    assert killed


def test_an_episode_that_a_fault_ends_does_not_count_and_another_is_played():
    env = Fragile("segfault", When("step", at=7, slots=(0,)), episode_steps=5)
    score = evaluate(Fixed(1), env, episodes=6, n_envs=2, workers=2, on_fault="cut")
    assert len(score.episodes) == 6
    assert score.cut == 1


def test_a_slot_that_is_given_up_ends_the_evaluation():
    env = Fragile("raise_error", When("step", again=True, slots=(1,), generations=None), episode_steps=5)
    with pytest.raises(NinelivesError, match=r"slots \[1\] are quarantined and have 3 episodes left"):
        evaluate(Fixed(1), env, episodes=6, n_envs=2, workers=2, max_restarts_per_slot=1, backoff_s=0.0)


def test_no_more_slots_than_episodes():
    policy = Fixed(0)
    assert len(evaluate(policy, Walk, episodes=3, n_envs=8, workers=1, greedy=False).episodes) == 3
    assert (policy.rows, policy.greedy) == (3, False)


def test_no_episodes_are_refused():
    with pytest.raises(ConfigError, match="episodes=0"):
        evaluate(Fixed(0), Walk, episodes=0)


def test_evaluating_uses_one_thread_and_restores_the_others():
    before, seen = torch.get_num_threads(), set()
    torch.set_num_threads(2)
    try:
        evaluate(Fixed(0), Walk, episodes=1, workers=1, on_batch=lambda pool, batch: seen.add(torch.get_num_threads()))
        assert (seen, torch.get_num_threads()) == ({1}, 2)
    finally:
        torch.set_num_threads(before)


# ---- arithmetic ------------------------------------------------------------------------------------------------------


def test_the_numbers_of_a_score():
    score = Score(tuple(EvaluatedEpisode(0, float(total), 10 * total, total > 2) for total in range(1, 5)), greedy=True)
    assert (score.mean, score.median, score.quantile(0.25), score.mean_length) == (2.5, 2.5, 1.75, 25.0)
    assert score.std == pytest.approx(np.std([1, 2, 3, 4]))
    assert str(score.success_rate) == "50.0% (15.0% to 85.0% of 4)"


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (100, 100, 0.9630, 1.0),
        (1, 2, 0.0945, 0.9055),
        (81, 263, 0.2553, 0.3662),
    ],
)
def test_wilson_against_published_values(successes, trials, low, high):
    assert wilson(successes, trials) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_contains_the_share_and_stays_within_bounds(case):
    successes, trials = case
    low, high = wilson(successes, trials)
    assert 0 <= low <= successes / trials <= high <= 1
    assert (low, high) == (pytest.approx(1 - wilson(trials - successes, trials)[1]), pytest.approx(high))


@pytest.mark.parametrize(("successes", "trials"), [(0, 0), (3, 2), (-1, 2)])
def test_wilson_refuses_impossible_counts(successes, trials):
    with pytest.raises(ValueError, match="make no share"):
        wilson(successes, trials)
