"""A worker that dies shows in two places, infos["fault"] and the valid mask, and only in the rows it concerns."""

from contextlib import closing

import numpy as np
import pytest
from tiny_envs import Mortal

import ninelives

NUM_ENVS = 4
IDLE, DEADLY = np.zeros(NUM_ENVS, np.int64), np.array([0, 0, 2, 0])
KILLED = np.array([False, False, True, True])  # slots 2 and 3 share the second worker


def opened(mode, **settings):
    # No pause before a restart: here each fault is planned, and the action that kills is tried twice.
    settings = {"backoff_s": 0.0, **settings}
    return closing(ninelives.VectorEnv(Mortal, NUM_ENVS, workers=2, autoreset_mode=mode, **settings))


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_a_cut_row_is_truncated_masked_and_named_then_a_fresh_episode_follows(mode):
    with opened(mode) as envs:
        envs.reset(seed=1)
        before, *_, infos = envs.step(IDLE)
        assert "valid" not in infos
        check_cut_row(envs, envs.step(DEADLY))
        rows = [envs.step(IDLE)]
        while not envs.valid.all() and len(rows) < 30:
            rows.append(envs.step(IDLE))
        (fresh, *_, infos), (first, *_, later_infos) = rows[-2:]
        np.testing.assert_array_equal(fresh[KILLED, 0], 0)
        np.testing.assert_array_equal(infos["valid"], ~KILLED, "the first row of an episode belongs to no transition")
        np.testing.assert_array_equal(first[KILLED, 0], 1)
        assert "valid" not in later_infos
        np.testing.assert_array_equal(first[~KILLED, 0], before[~KILLED, 0] + 1 + len(rows))


def check_cut_row(envs, answer):
    _, reward, terminated, truncated, infos = answer
    np.testing.assert_array_equal(truncated, KILLED)
    np.testing.assert_array_equal(envs.valid, ~KILLED)
    np.testing.assert_array_equal(infos["valid"], ~KILLED)
    np.testing.assert_array_equal(infos["_fault"], KILLED)
    assert infos["_valid"].all()
    assert infos["fault"][2].signal == "SIGKILL"
    assert not terminated.any()
    assert (reward[KILLED] == 0).all()


def test_a_cut_row_has_a_final_observation_where_learners_expect_one():
    with opened("SameStep") as envs:
        envs.reset(seed=1)
        last, *_ = envs.step(IDLE)
        *_, truncated, infos = envs.step(DEADLY)
        np.testing.assert_array_equal(infos["_final_obs"], truncated)
        np.testing.assert_array_equal(infos["_final_info"], truncated)
        np.testing.assert_array_equal(infos["final_obs"][2], last[2])


def test_a_masked_reset_heals_the_cut_rows():
    with opened("Disabled") as envs:
        envs.reset(seed=1)
        *_, truncated, _ = envs.step(DEADLY)
        obs, infos = envs.reset(seed=1, options={"reset_mask": truncated})
        assert "valid" not in infos
        assert envs.valid.all()
        np.testing.assert_array_equal(obs[:, 0], [1, 1, 0, 0])
        np.testing.assert_array_equal(envs.step(IDLE)[0][:, 0], [2, 2, 1, 1])


def test_on_fault_raise_raises_the_fault_as_an_error():
    with opened("NextStep", on_fault="raise") as envs:
        envs.reset(seed=1)
        with pytest.raises(ninelives.WorkerCrashedError, match="SIGKILL"):
            envs.step(DEADLY)
