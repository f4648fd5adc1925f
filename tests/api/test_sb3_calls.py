"""What SB3 asks of the environments outside a step: attributes, methods, wrappers, frames, action masks."""

import sys
import threading
from contextlib import closing

import cloudpickle
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit, TransformReward
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from tiny_envs import Painter

import ninelives
from ninelives.adapters.sb3 import VecEnv

# By value: a worker that imported this file would import SB3 and torch.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

N = 3


class Asked(Painter):
    """Has a mask for its actions, and something that cannot be sent."""

    def __init__(self):
        super().__init__(render_mode="rgb_array")
        self.lock = threading.Lock()

    def greet(self, *, name):
        return f"hello {name}"

    def action_masks(self):
        return np.array([True, self.count % 2 == 0, False])


def asked():
    return TimeLimit(Asked(), 50)


@pytest.fixture(scope="module")
def envs():
    envs = VecEnv(asked, N, workers=2)
    yield envs
    envs.close()


@pytest.fixture(autouse=True)
def fresh(envs):
    envs.seed(3)
    envs.reset()
    envs.set_attr("colour", 7)


@pytest.mark.parametrize(("indices", "wanted"), [(None, [8, 9, 10]), (1, [9]), ([2, 0], [10, 8]), (-1, [10]), ([], [])])
def test_attributes_are_read_from_and_written_to_the_chosen_environments(envs, indices, wanted):
    for slot in range(N):
        envs.set_attr("colour", 8 + slot, indices=slot)
    assert envs.get_attr("colour", indices) == wanted
    envs.set_attr("colour", 0, indices)
    assert envs.get_attr("colour").count(0) == len(wanted)


def test_methods_are_called_with_their_arguments_through_wrappers(envs):
    assert envs.env_method("add", 1, second=2) == [10, 10, 10]
    assert envs.env_method("add", 1, indices=[1]) == [8]
    assert envs.env_method("greet", name="you", indices=0) == ["hello you"]


def test_an_index_that_does_not_exist_is_refused(envs):
    with pytest.raises(IndexError):
        envs.get_attr("colour", N)


def test_a_missing_attribute_is_an_attribute_error(envs):
    with pytest.raises(AttributeError, match="shade"):
        envs.get_attr("shade")
    assert not envs.has_attr("shade")
    assert envs.has_attr("colour")


def test_whether_an_attribute_exists_is_known_also_if_it_cannot_be_sent(envs):
    assert envs.has_attr("lock")
    with pytest.raises(ninelives.EnvRaisedError, match="cannot pickle"):
        envs.get_attr("lock")


def test_an_error_in_a_method_is_raised_and_the_episode_goes_on(envs):
    before = envs.step(np.zeros(N, np.int64))[0]
    with pytest.raises(ninelives.EnvRaisedError, match="not this one"):
        envs.env_method("refuse")
    np.testing.assert_array_equal(envs.step(np.zeros(N, np.int64))[0][:, 0], before[:, 0] + 1)


def test_wrappers_are_known_by_their_class(envs):
    assert envs.env_is_wrapped(TimeLimit) == [True] * N
    assert envs.env_is_wrapped(TransformReward, indices=[0, 2]) == [False] * 2


def test_frames_come_one_by_one_and_tiled_as_from_dummy_vec_env(envs):
    theirs = DummyVecEnv([asked] * N)
    theirs.seed(3)
    theirs.reset()
    assert envs.render_mode == theirs.render_mode == "rgb_array"
    np.testing.assert_array_equal(envs.get_images(), theirs.get_images())
    np.testing.assert_array_equal(envs.render(), theirs.render())


def test_without_a_render_mode_there_are_no_frames():
    with closing(VecEnv("CartPole-v1", 2, workers=1)) as envs:
        envs.reset()
        assert envs.get_images() == [None, None]
        with pytest.warns(UserWarning, match="no `render_mode` was passed"):
            assert envs.render() is None


def test_action_masks_are_given_as_maskable_learners_ask_for_them(envs):
    learner_sees = VecNormalize(envs)
    assert learner_sees.has_attr("action_masks")
    for count in range(3):
        masks = np.stack(learner_sees.env_method("action_masks"))
        assert masks.dtype == np.bool_
        assert masks.tolist() == [[True, count % 2 == 0, False]] * N
        envs.step(np.zeros(N, np.int64))
    assert len(learner_sees.env_method("action_masks", indices=[1])) == 1
