"""Gymnasium's own vector wrappers work here as they do on its SyncVectorEnv."""

from contextlib import closing

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TransformObservation
from gymnasium.wrappers import vector as wrappers
from tiny_envs import Chatty, Nested, Painter, assert_same

import ninelives

NUM_ENVS = 3


def flattened_nested(envs):
    return wrappers.FlattenObservation(wrappers.FilterObservation(envs, ["body", "camera"]))


def negated(envs):
    space = envs.single_observation_space
    return wrappers.VectorizeTransformObservation(envs, TransformObservation, func=np.negative, observation_space=space)


WRAPPED = {
    "normalized observations": (wrappers.NormalizeObservation, Chatty, AutoresetMode.NEXT_STEP),
    "normalized rewards": (wrappers.NormalizeReward, Chatty, AutoresetMode.SAME_STEP),
    "clipped rewards": (lambda envs: wrappers.ClipReward(envs, -0.5, 0.5), Chatty, AutoresetMode.NEXT_STEP),
    "infos as a list": (wrappers.DictInfoToList, Chatty, AutoresetMode.NEXT_STEP),
    "flat and filtered": (flattened_nested, Nested, AutoresetMode.NEXT_STEP),
    "negated one by one": (negated, Chatty, AutoresetMode.NEXT_STEP),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_a_wrapper_of_gymnasium_gives_the_same_as_on_sync_vector_env(name):
    wrap, env, mode = WRAPPED[name]
    theirs = wrap(SyncVectorEnv([env] * NUM_ENVS, autoreset_mode=mode))
    with closing(wrap(ninelives.VectorEnv(env, NUM_ENVS, workers=2, autoreset_mode=mode))) as ours:
        assert ours.observation_space == theirs.observation_space
        assert_same(ours.reset(seed=5), theirs.reset(seed=5))
        theirs.action_space.seed(5)
        for i in range(25):
            actions = theirs.action_space.sample()
            assert_same(ours.step(actions), theirs.step(actions), f"step {i}")
    assert ours.unwrapped.closed


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP], ids=lambda mode: mode.value)
def test_record_episode_statistics_agrees_with_what_the_workers_count(mode):
    ours = ninelives.VectorEnv(Chatty, NUM_ENVS, workers=2, autoreset_mode=mode)
    with closing(wrappers.RecordEpisodeStatistics(ours)) as envs:
        envs.reset(seed=5)
        ended = 0
        for _ in range(30):
            *_, infos = envs.step(np.zeros(NUM_ENVS, np.int64))
            episodes = ours.episodes
            if len(episodes):
                np.testing.assert_array_equal(infos["_episode"], np.isin(np.arange(NUM_ENVS), episodes.slots))
                np.testing.assert_allclose(infos["episode"]["r"][episodes.slots], episodes.returns)
                np.testing.assert_array_equal(infos["episode"]["l"][episodes.slots], episodes.lengths)
            ended += len(episodes)
        assert ended == envs.episode_count > NUM_ENVS


def test_statistics_of_environments_that_are_not_reset_survive_a_masked_reset():
    with closing(wrappers.RecordEpisodeStatistics(ninelives.VectorEnv(Chatty, NUM_ENVS, workers=1))) as envs:
        envs.reset(seed=5)
        envs.step(np.zeros(NUM_ENVS, np.int64))
        envs.reset(options={"reset_mask": np.array([True, False, False])})
        np.testing.assert_array_equal(envs.episode_lengths, [0, 1, 1])


def test_wrappers_pass_questions_through():
    with closing(wrappers.RecordEpisodeStatistics(ninelives.VectorEnv(Painter, NUM_ENVS, workers=1))) as envs:
        envs.reset(seed=5)
        assert envs.np_random_seed == (5, 6, 7)
        assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
        assert envs.unwrapped.get_attr("colour") == (7, 7, 7)
        assert isinstance(envs.unwrapped, gymnasium.vector.VectorEnv)
