"""Step for step what Gymnasium's own SyncVectorEnv gives, for every autoreset mode."""

from contextlib import closing

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from tiny_envs import Chatty, Counting, Nested, OneBuffer, Seeded, assert_same

import ninelives

NUM_ENVS = 3
MODES = list(AutoresetMode)


def cartpole():
    return gymnasium.make("CartPole-v1", disable_env_checker=True)


ENVS = {"cartpole": cartpole, "nested": Nested, "counting": Counting, "chatty": Chatty, "one buffer": OneBuffer}


def both(env, mode, **settings):
    """The same environments twice: ours and Gymnasium's."""
    ours = ninelives.VectorEnv(env, NUM_ENVS, autoreset_mode=mode, **{"workers": 2, **settings})
    return ours, SyncVectorEnv([env] * NUM_ENVS, autoreset_mode=mode)


def play_together(ours, theirs, steps):
    """Both get the same seeds and actions and must answer the same, resets of finished rows included."""
    assert_same(ours.reset(seed=7), theirs.reset(seed=7), "reset")
    theirs.action_space.seed(11)
    ended = 0
    for i in range(steps):
        actions = theirs.action_space.sample()
        mine, wanted = ours.step(actions), theirs.step(actions)
        assert_same(mine, wanted, f"step {i}")
        over = wanted[2] | wanted[3]
        ended += over.sum()
        if theirs.autoreset_mode is AutoresetMode.DISABLED and over.any():
            mine = ours.reset(options={"reset_mask": over.copy()})
            assert_same(mine, theirs.reset(options={"reset_mask": over}), f"masked reset after step {i}")
    return ended


# Gymnasium 1.4 hands out an overwritten buffer as final_obs; what is true there is tested below, without it.
CASES = [(name, mode) for name in ENVS for mode in MODES if (name, mode) != ("one buffer", AutoresetMode.SAME_STEP)]


@pytest.mark.parametrize(("name", "mode"), CASES, ids=[f"{name}-{mode.value}" for name, mode in CASES])
def test_every_step_equals_sync_vector_env(name, mode):
    ours, theirs = both(ENVS[name], mode)
    with closing(ours):
        assert play_together(ours, theirs, 60) >= NUM_ENVS, "the episodes were too long to show a reset"


@pytest.mark.parametrize("name", ["nested", "counting", "chatty"])
def test_the_pure_python_path_equals_sync_vector_env(name, monkeypatch):
    monkeypatch.setenv("NINELIVES_NATIVE", "0")
    ours, theirs = both(ENVS[name], AutoresetMode.SAME_STEP)
    with closing(ours):
        assert ours.call("is_native") == (False,) * NUM_ENVS
        assert play_together(ours, theirs, 40) >= NUM_ENVS


@pytest.mark.parametrize("native", ["1", "0"], ids=["native", "python"])
@pytest.mark.parametrize("copy", [True, False], ids=["copies", "views"])
def test_final_obs_is_the_true_last_observation_even_if_the_environment_reuses_its_buffer(native, copy, monkeypatch):
    monkeypatch.setenv("NINELIVES_NATIVE", native)
    with closing(ninelives.VectorEnv(OneBuffer, NUM_ENVS, workers=1, copy=copy, autoreset_mode="SameStep")) as ours:
        before, _ = ours.reset(seed=7)
        before, seen = before.copy(), []
        for _ in range(30):
            obs, _, terminated, truncated, infos = ours.step(np.zeros(NUM_ENVS, np.int64))
            for row in np.flatnonzero(terminated | truncated):
                length = before[row, 1]
                np.testing.assert_array_equal(infos["final_obs"][row], [length, length])
                assert obs[row, 0] == 0, "the row itself shows the next episode"
                seen.append(infos["final_obs"][row])
            before = obs.copy()
        assert len(seen) >= 2 * NUM_ENVS
        assert all(length == count for count, length in seen), "a kept final observation was overwritten"


def test_spaces_and_description_are_those_of_sync_vector_env():
    ours, theirs = both(Nested, AutoresetMode.NEXT_STEP)
    with closing(ours):
        for name in ("single_observation_space", "observation_space", "single_action_space", "action_space"):
            assert getattr(ours, name) == getattr(theirs, name), name
        assert ours.metadata == theirs.metadata
        assert (ours.num_envs, ours.render_mode, ours.closed) == (NUM_ENVS, None, False)
        assert isinstance(ours, gymnasium.vector.VectorEnv)
        assert ours.unwrapped is ours
        assert ours.reset(seed=1)[0] in ours.observation_space
        assert ours.step(ours.action_space.sample())[0] in ours.observation_space


def test_infos_are_empty_when_no_environment_says_anything():
    with closing(ninelives.VectorEnv(Seeded, NUM_ENVS, workers=1)) as ours:
        assert ours.reset(seed=1)[1] == {}
        answers = [ours.step(np.zeros(NUM_ENVS, np.int64)) for _ in range(20)]
        assert [infos for *_, infos in answers] == [{}] * 20
        assert any(terminated.any() or truncated.any() for _, _, terminated, truncated, _ in answers)


def test_episodes_are_counted_beside_the_infos():
    with closing(ninelives.VectorEnv(Seeded, NUM_ENVS, workers=2)) as ours:
        ours.reset(seed=1)
        returns, lengths, ended = np.zeros(NUM_ENVS), np.zeros(NUM_ENVS, np.int64), 0
        over = np.zeros(NUM_ENVS, bool)
        for _ in range(20):
            _, reward, terminated, truncated, _ = ours.step(np.zeros(NUM_ENVS, np.int64))
            returns, lengths = np.where(over, 0, returns + reward), np.where(over, 0, lengths + 1)
            over = terminated | truncated
            np.testing.assert_array_equal(ours.episodes.slots, np.flatnonzero(over))
            np.testing.assert_allclose(ours.episodes.returns, returns[over])
            np.testing.assert_array_equal(ours.episodes.lengths, lengths[over])
            ended += len(ours.episodes)
        assert ended > NUM_ENVS


def test_stepping_a_finished_environment_is_refused_when_autoreset_is_disabled():
    with closing(ninelives.VectorEnv(Counting, NUM_ENVS, workers=1, autoreset_mode=AutoresetMode.DISABLED)) as ours:
        ours.reset(seed=7)
        over = np.zeros(NUM_ENVS, bool)
        while not over.any():
            _, _, terminated, truncated, _ = ours.step(np.zeros(NUM_ENVS, np.int64))
            over = terminated | truncated
        with pytest.raises(ninelives.UsageError, match="autoreset is disabled"):
            ours.step(np.zeros(NUM_ENVS, np.int64))
