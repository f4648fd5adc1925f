"""Tests of the referee itself: one that accepts a wrong row would make every other test here worthless."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from ninelives.testing import CountingEnv, Referee, When
from ninelives.testing.counting import DIGEST, EPISODE, SEED, SLOT, STEP, first_row, next_row, reward_of


def batch(*rows, valid=True, terminated=False, truncated=False, reward=None):
    count = len(rows)
    return SimpleNamespace(
        obs=np.array(rows),
        slots=np.arange(count),
        valid=np.full(count, valid),
        terminated=np.full(count, terminated),
        truncated=np.full(count, truncated),
        reward=np.array([reward_of(row) for row in rows] if reward is None else [reward] * count),
    )


@pytest.fixture
def referee():
    made = Referee(1)
    made.reset(batch(first_row(0, 5, 1)))
    return made


SECOND = next_row(first_row(0, 5, 1), 3)


def test_true_successor_is_accepted(referee):
    referee.step([3], batch(SECOND))
    referee.step([1], batch(next_row(SECOND, 1)))
    assert referee.valid_rows == 3


@pytest.mark.parametrize("field", [SLOT, SEED, EPISODE, STEP, DIGEST])
def test_row_that_differs_in_anything_is_refused(referee, field):
    wrong = SECOND.copy()
    wrong[field] += 1
    with pytest.raises(AssertionError, match="slot 0"):
        referee.step([3], batch(wrong, reward=reward_of(SECOND)))


def test_row_of_another_action_is_refused(referee):
    with pytest.raises(AssertionError):
        referee.step([4], batch(SECOND))


def test_row_that_is_late_by_one_is_refused(referee):
    referee.step([3], batch(SECOND))
    with pytest.raises(AssertionError):
        referee.step([3], batch(SECOND))


def test_true_row_with_a_wrong_reward_is_refused(referee):
    with pytest.raises(AssertionError):
        referee.step([3], batch(SECOND, reward=7.0))


def test_masked_row_promises_nothing_but_the_next_valid_one_must_follow_a_first_row(referee):
    referee.step([0], batch(np.zeros(6), valid=False, truncated=True))
    referee.step([0], batch(first_row(0, 9, 1), valid=False))
    referee.step([2], batch(next_row(first_row(0, 9, 1), 2)))
    assert (referee.valid_rows, referee.masked_rows) == (2, 2)


def test_valid_row_right_after_a_fault_row_is_refused(referee):
    referee.step([3], batch(SECOND, valid=False, truncated=True))
    with pytest.raises(AssertionError, match="first row"):
        referee.step([1], batch(next_row(SECOND, 1)))


def test_ended_episode_is_followed_by_a_first_row(referee):
    referee.step([3], batch(SECOND, terminated=True))
    referee.step([0], batch(first_row(0, 5, 2)))
    with pytest.raises(AssertionError):
        referee.step([0], batch(first_row(0, 5, 3)))


def test_counting_environment_plays_by_the_referees_rule():
    env, made = CountingEnv(episode_steps=3), Referee(1)
    made.reset(batch(env.reset(seed=8)[0]))
    for step in range(1, 4):
        row, reward, terminated, _, _ = env.step(step)
        made.step([step], batch(row, terminated=terminated, reward=reward))
    assert terminated


def test_moment_of_a_fault_is_met_exactly(tmp_path):
    place = SimpleNamespace(slot=1, generation=1)
    when = When("step", at=3, slots=(1,))
    assert [when.has_come("step", count, place) for count in (2, 3, 4)] == [False, True, False]
    assert not when.has_come("reset", 3, place)
    assert not when.has_come("step", 3, SimpleNamespace(slot=0, generation=1))
    assert not when.has_come("step", 3, SimpleNamespace(slot=1, generation=2))
    once = When("step", again=True, once=str(tmp_path / "once"))
    assert [once.has_come("step", count, place) for count in (1, 2)] == [True, False]
    with pytest.raises(ValueError, match="phase='walk'"):
        When("walk")
