"""Calls into the environments outside a step: methods, attributes, frames, and close."""

from contextlib import closing

import gymnasium
import numpy as np
import pytest
from tiny_envs import Painter, Seeded

import ninelives

NUM_ENVS = 3


@pytest.fixture(scope="module")
def envs():
    envs = ninelives.make_vec(Painter, NUM_ENVS, workers=2, render_mode="rgb_array")
    yield envs
    envs.close()


@pytest.fixture(autouse=True)
def fresh(envs):
    envs.reset(seed=3)
    envs.set_attr("colour", 7)


def test_call_reaches_every_environment_in_order(envs):
    assert envs.call("add", 1, second=2) == (10, 10, 10)


def test_call_of_an_attribute_reads_it_and_get_attr_of_a_method_calls_it_as_in_gymnasium(envs):
    assert envs.call("colour") == envs.get_attr("colour") == (7, 7, 7)
    assert envs.get_attr("render")[0].shape == (2, 2, 3)


def test_set_attr_gives_one_value_to_all(envs):
    envs.set_attr("colour", 9)
    assert envs.get_attr("colour") == (9, 9, 9)


@pytest.mark.parametrize("kind", [list, tuple])
def test_set_attr_gives_each_its_own_value(envs, kind):
    envs.set_attr("colour", kind((1, 2, 3)))
    assert envs.get_attr("colour") == (1, 2, 3)


def test_set_attr_with_the_wrong_number_of_values_changes_nothing(envs):
    with pytest.raises(ValueError, match="2 values for 3 environments"):
        envs.set_attr("colour", [1, 2])
    assert envs.get_attr("colour") == (7, 7, 7)


def test_an_error_in_a_call_is_raised_with_its_traceback_and_the_episode_goes_on(envs):
    before, *_ = envs.step(np.zeros(NUM_ENVS, np.int64))
    with pytest.raises(ninelives.EnvRaisedError, match="not this one") as caught:
        envs.call("refuse")
    assert "in refuse" in caught.value.fault.traceback
    obs, *_, infos = envs.step(np.zeros(NUM_ENVS, np.int64))
    np.testing.assert_array_equal(obs[:, 0], before[:, 0] + 1)
    assert infos == {}


def test_render_returns_one_frame_per_environment(envs):
    envs.set_attr("colour", [10, 20, 30])
    envs.step(np.zeros(NUM_ENVS, np.int64))
    frames = envs.render()
    assert envs.render_mode == "rgb_array"
    assert isinstance(frames, tuple)
    assert [(frame.shape, frame.dtype, int(frame[0, 0, 0])) for frame in frames] == [
        ((2, 2, 3), np.uint8, colour) for colour in (11, 21, 31)
    ]


@pytest.mark.parametrize("actions", [[0, 1], np.zeros((3, 1), np.int64), 0, np.zeros(4, np.int64)], ids=str)
def test_actions_of_the_wrong_shape_are_refused_and_nothing_moves(envs, actions):
    envs.step(np.zeros(NUM_ENVS, np.int64))
    with pytest.raises(ninelives.UsageError, match="shape"):
        envs.step(actions)
    assert envs.get_attr("count") == (1, 1, 1)


def test_stepping_before_the_first_reset_is_refused():
    with closing(ninelives.VectorEnv(Seeded, 2, workers=1)) as envs, pytest.raises(ninelives.UsageError, match="reset"):
        envs.step([0, 0])


def test_close_may_be_repeated_and_later_calls_are_refused():
    envs = ninelives.VectorEnv("CartPole-v1", 2, workers=1)
    assert repr(envs) == "VectorEnv(CartPole-v1, num_envs=2)"
    assert isinstance(envs.spec, gymnasium.envs.registration.EnvSpec)
    envs.reset(seed=1)
    envs.close()
    envs.close(terminate=True)
    assert envs.closed
    for late in (lambda: envs.step([0, 0]), envs.reset, envs.render, lambda: envs.call("add", 1)):
        with pytest.raises(ninelives.ClosedError, match="closed"):
            late()
