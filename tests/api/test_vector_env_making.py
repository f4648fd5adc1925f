"""make_vec accepts what gymnasium.make_vec accepts; a view can also be made of an existing pool."""

from contextlib import closing

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import RescaleAction, TimeAwareObservation, TransformReward
from tiny_envs import Painter, Seeded, assert_same

import ninelives


def test_a_call_of_gymnasium_make_vec_works_as_one_of_ours():
    asked = {
        "num_envs": 3,
        "vector_kwargs": {"copy": False, "autoreset_mode": AutoresetMode.SAME_STEP},
        "wrappers": (TimeAwareObservation, lambda env: TransformReward(env, lambda reward: 2 * reward)),
        "max_episode_steps": 4,
        "goal_velocity": 0.01,
    }
    theirs = gymnasium.make_vec("MountainCar-v0", **asked)
    with closing(ninelives.make_vec("MountainCar-v0", **asked)) as ours:
        assert ours.observation_space == theirs.observation_space
        assert ours.metadata == theirs.metadata
        assert_same(ours.reset(seed=2), theirs.reset(seed=2))
        for _ in range(10):
            actions = theirs.action_space.sample()
            assert_same(ours.step(actions), theirs.step(actions))


def test_keywords_go_to_the_environment_and_add_to_those_of_its_spec():
    spec = ninelives.EnvSpec(Painter, {"colour": 3, "render_mode": "rgb_array"})
    with closing(ninelives.make_vec(spec, 2, workers=2, colour=5)) as envs:
        assert envs.get_attr("colour") == (5, 5)
        assert envs.render_mode == "rgb_array"
        assert envs.pool.workers == 2


def test_one_environment_is_made_by_default():
    with closing(ninelives.make_vec(Seeded)) as envs:
        assert envs.reset()[0].shape == (1, 2)


def test_a_wrapper_that_does_not_fit_is_reported_with_the_traceback_of_the_worker():
    with pytest.raises(ninelives.WorkerStartError, match="RescaleAction") as caught:
        ninelives.make_vec(
            Seeded, wrappers=[lambda env: RescaleAction(env, -1, 1)], vector_kwargs={"start_attempts": 1}
        )
    assert "in build" in caught.value.fault.traceback


def test_a_misspelt_setting_is_refused_with_the_right_name():
    with pytest.raises(ninelives.ConfigError, match="did you mean 'on_fault'"):
        ninelives.make_vec(Seeded, 2, vector_kwargs={"on_faults": "raise"})
    with pytest.raises(ninelives.ConfigError, match="autoreset='Sometimes'"):
        ninelives.VectorEnv(Seeded, 2, autoreset_mode="Sometimes")


def test_a_view_on_a_pool_closes_it():
    pool = ninelives.Pool(Seeded, 2, workers=1, autoreset="same_step")
    envs = ninelives.VectorEnv.of(pool)
    assert envs.pool is pool
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    envs.reset(seed=1)
    assert envs.step(np.zeros(2, np.int64))[0].shape == (2, 2)
    envs.close()
    with pytest.raises(ninelives.ClosedError):
        pool.reset()


def test_batches_of_some_environments_are_refused_because_gymnasium_knows_only_whole_ones():
    with pytest.raises(ninelives.ConfigError, match="batch_size=1"):
        ninelives.VectorEnv(Seeded, 2, batch_size=1)
    with (
        ninelives.Pool(Seeded, 2, workers=1, batch_size=1) as pool,
        pytest.raises(ninelives.ConfigError, match="size=1"),
    ):
        ninelives.VectorEnv.of(pool)
