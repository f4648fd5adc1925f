"""Running statistics: exact, restorable, without rows that are not true transitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninelives.train.config.classes import NormaliseConfig
from ninelives.train.policy.normalise import Moments, ObsNormaliser, RewardNormaliser

ROWS = np.random.default_rng(0).normal(5.0, 3.0, (200, 2))


@given(st.lists(st.integers(0, 200), max_size=6))
def test_statistics_do_not_depend_on_the_batches(cuts):
    moments = Moments((2,))
    for piece in np.split(ROWS, sorted(cuts)):
        moments.add(piece)
    np.testing.assert_allclose(moments.mean, ROWS.mean(0))
    np.testing.assert_allclose(moments.deviation, ROWS.std(0), rtol=1e-6)


def test_observations_get_mean_zero_and_deviation_one_and_images_stay():
    normaliser = ObsNormaliser([(2,), None], clip=None)
    image = np.full((200, 4, 4), 200, np.uint8)
    normaliser.learn((ROWS, image), np.ones(200, np.bool_))
    scaled, same = normaliser.apply((ROWS, image))
    np.testing.assert_allclose(scaled.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(scaled.std(0), 1, atol=1e-5)
    assert same is image


def test_masked_rows_do_not_count():
    valid = np.arange(200) % 2 == 0
    mixed = np.where(valid[:, None], ROWS, 1e6)
    one, two = ObsNormaliser([(2,)], None), ObsNormaliser([(2,)], None)
    one.learn((mixed,), valid)
    two.learn((ROWS[valid],), np.ones(100, np.bool_))
    np.testing.assert_array_equal(one.apply((ROWS,))[0], two.apply((ROWS,))[0])


@pytest.mark.parametrize("clip", [None, 0.5])
def test_clipping_is_optional(clip):
    normaliser = ObsNormaliser([(2,)], clip)
    normaliser.learn((ROWS,), np.ones(200, np.bool_))
    largest = abs(normaliser.apply((ROWS,))[0]).max()
    assert largest == 0.5 if clip else largest > 2


def test_rewards_are_unchanged_by_default():
    rewards, no = np.array([[5.0, -70.0]]), np.zeros((1, 2), np.bool_)
    assert RewardNormaliser(2, 0.99, NormaliseConfig())(rewards, no, ~no).tolist() == [[5.0, -70.0]]
    clipped = RewardNormaliser(2, 0.99, NormaliseConfig(clip_reward=1.0))(rewards, no, ~no)
    assert clipped.tolist() == [[1.0, -1.0]]


def test_scaled_returns_have_deviation_one_whatever_the_units():
    generator = np.random.default_rng(1)
    ended = generator.random((500, 4)) < 0.05
    learned = np.ones_like(ended)
    seen = []
    for unit in (1.0, 1000.0):
        rewards = np.random.default_rng(2).normal(0, unit, (500, 4))
        seen.append(RewardNormaliser(4, 0.9, NormaliseConfig(reward=True))(rewards, ended, learned))
    np.testing.assert_allclose(seen[0], seen[1], rtol=1e-5)


def test_a_restored_normaliser_continues_exactly():
    rewards, ended = np.random.default_rng(3).normal(size=(2, 50, 4)), np.random.default_rng(4).random((2, 50, 4)) < 0.1
    config, learned = NormaliseConfig(reward=True), np.ones((50, 4), np.bool_)
    whole, first, second = (RewardNormaliser(4, 0.9, config) for _ in range(3))
    whole(rewards[0], ended[0], learned)
    first(rewards[0], ended[0], learned)
    second.load_state_dict(first.state_dict())
    np.testing.assert_array_equal(second(rewards[1], ended[1], learned), whole(rewards[1], ended[1], learned))
