"""Views take the lists of functions that Gymnasium's and SB3's own vector environments take, also of different ones."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import closing
from functools import partial

import cloudpickle
import gymnasium
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv
from tiny_envs import Painter, Seeded, assert_same

import ninelives
from ninelives.adapters.sb3 import VecEnv

# By value: a worker that imported this file would import SB3 and torch.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

PAINTERS = [partial(Painter, colour=colour) for colour in (3, 1, 4)]


@pytest.mark.parametrize("workers", [1, 2])
def test_slot_i_gets_function_i_and_gives_what_gymnasium_gives(workers):
    theirs = SyncVectorEnv(PAINTERS)
    with closing(ninelives.VectorEnv(PAINTERS, workers=workers)) as ours:
        assert ours.num_envs == 3
        assert ours.get_attr("colour") == theirs.get_attr("colour") == (3, 1, 4)
        assert_same(ours.reset(seed=5), theirs.reset(seed=5))
        for _ in range(20):
            actions = theirs.action_space.sample()
            assert_same(ours.step(actions), theirs.step(actions))


def test_a_slot_that_died_is_rebuilt_by_its_own_function():
    with closing(ninelives.VectorEnv(PAINTERS, workers=1)) as envs:
        envs.reset(seed=1)
        (pid,) = envs.pool.worker_pids
        os.kill(pid, signal.SIGKILL)
        envs.step(np.zeros(3, np.int64))
        assert envs.valid.all()
        assert envs.pool.worker_pids != (pid,)
        assert envs.get_attr("colour") == (3, 1, 4)


def test_the_same_function_again_and_again_is_one_function_and_may_have_spares():
    with closing(ninelives.VectorEnv([Seeded] * 3, workers=1, spares=1)) as envs:
        assert envs.reset()[0].shape == (3, 2)


def test_make_vec_env_of_sb3_makes_ours_with_the_same_trajectories():
    made = {
        cls: make_vec_env("MountainCar-v0", 3, seed=4, vec_env_cls=cls, env_kwargs={"goal_velocity": 0.01})
        for cls in (DummyVecEnv, VecEnv)
    }
    theirs, ours = made[DummyVecEnv], made[VecEnv]
    with closing(ours):
        assert ours.get_attr("goal_velocity") == [0.01] * 3
        assert_same(ours.reset(), theirs.reset())
        for _ in range(5):
            actions = np.array([theirs.action_space.sample() for _ in range(3)])
            for mine, other in zip(ours.step(actions)[:3], theirs.step(actions)[:3], strict=True):
                assert_same(mine, other)


@pytest.mark.parametrize(
    ("env", "given", "said"),
    [
        ([], {}, "not a list of functions"),
        (PAINTERS, {"num_envs": 2}, "num_envs=2 does not fit the 3 functions"),
        (PAINTERS, {"spares": 1}, "spares=1"),
        ([Painter, 5], {}, "5. is not a list of functions"),
        (Painter, {}, "num_envs is missing"),
    ],
)
def test_lists_that_do_not_fit_are_refused_before_a_process_starts(env, given, said):
    with pytest.raises(ninelives.ConfigError, match=said):
        ninelives.VectorEnv(env, **given)


@pytest.mark.parametrize("mode", ["sync", "async", gymnasium.VectorizeMode.ASYNC])
def test_modes_of_make_vec_are_accepted_in_their_place(mode):
    with closing(ninelives.make_vec("CartPole-v1", 2, mode, {"copy": False}, workers=1)) as envs:
        assert envs.reset()[0].shape == (2, 4)


@pytest.mark.parametrize("mode", ["vector_entry_point", "threads"])
def test_other_modes_are_refused_in_words(mode):
    with pytest.raises(ninelives.ConfigError, match=f"vectorization_mode='{mode}'.*'async'"):
        ninelives.make_vec("CartPole-v1", 2, vectorization_mode=mode)
