"""The asynchronous calls of Gymnasium's vector environments, and the errors that code for them expects."""

from __future__ import annotations

import os
import pickle
import signal
from contextlib import closing

import numpy as np
import pytest
from gymnasium.error import AlreadyPendingCallError, ClosedEnvironmentError, NoAsyncCallError
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from tiny_envs import Chatty, Seeded, assert_same

import ninelives

N = 3
NOTHING = np.zeros(N, np.int64)


@pytest.fixture
def envs():
    with closing(ninelives.VectorEnv(Seeded, N, workers=2)) as made:
        yield made


@pytest.mark.parametrize("mode", AutoresetMode)
def test_the_mode_is_an_attribute_as_in_gymnasium(mode):
    theirs = SyncVectorEnv([Seeded], autoreset_mode=mode)
    with closing(ninelives.VectorEnv(Seeded, 1, autoreset_mode=mode)) as ours:
        assert ours.autoreset_mode is theirs.autoreset_mode is mode


def test_the_halves_of_step_and_reset_give_what_gymnasium_gives():
    theirs = SyncVectorEnv([Chatty] * N)
    with closing(ninelives.VectorEnv(Chatty, N, workers=2)) as ours:
        mask = np.array([True, False, True])
        for options in (None, {"reset_mask": mask}, {"reset_mask": mask}):
            ours.reset_async(seed=[3, 1, 4], options=options and dict(options))
            assert_same(ours.reset_wait(), theirs.reset(seed=[3, 1, 4], options=options and dict(options)))
            for _ in range(10):
                ours.step_async(NOTHING)
                assert_same(ours.step_wait(), theirs.step(NOTHING))
        assert len(ours) == N


def test_the_workers_step_between_the_halves(envs):
    envs.reset(seed=1)
    envs.step_async(NOTHING)
    os.kill(envs.pool.worker_pids[0], signal.SIGKILL)
    obs = envs.step_wait()[0]
    assert envs.valid.all()
    assert obs[:, 0].tolist() == [1, 1, 1]


def test_calls_in_the_wrong_order_are_refused_with_gymnasiums_types_and_the_pending_call_still_counts(envs):
    with pytest.raises(NoAsyncCallError, match=r"reset_async\(\)"):
        envs.reset_wait()
    envs.reset(seed=1)
    with pytest.raises(NoAsyncCallError, match=r"step_async\(\)") as missing:
        envs.step_wait()
    assert missing.value.name == "step"
    envs.step_async(NOTHING)
    refused = [
        lambda: envs.step_async(NOTHING),
        lambda: envs.step(NOTHING),
        envs.reset_async,
        envs.reset,
        lambda: envs.call("count"),
    ]
    for call in refused:
        with pytest.raises(AlreadyPendingCallError, match=r"step_wait|recv") as pending:
            call()
        assert pending.value.name == "step"
        assert pickle.loads(pickle.dumps(pending.value)).name == "step"
    with pytest.raises(NoAsyncCallError, match="no reset is under way"):
        envs.reset_wait()
    assert envs.step_wait()[0][:, 0].tolist() == [1, 1, 1]


def test_arguments_are_refused_by_the_first_half_and_a_timeout_with_the_setting_to_use(envs):
    with pytest.raises(ValueError, match="seed has 2 entries"):
        envs.reset_async(seed=[1, 2])
    envs.reset_async(seed=1)
    with pytest.raises(ninelives.ConfigError, match="reset_timeout_s"):
        envs.reset_wait(timeout=1)
    assert envs.reset_wait()[0].shape == (N, 2)


@pytest.mark.parametrize("wrong", [NOTHING[1:], np.zeros(N + 1, np.int64)])
def test_a_wrong_number_of_actions_is_a_value_error(envs, wrong):
    envs.reset(seed=1)
    for step in (envs.step, envs.step_async):
        with pytest.raises(ValueError, match="shape") as caught:
            step(wrong)
        assert isinstance(caught.value, ninelives.ActionError)
    assert envs.step(NOTHING)[0][:, 0].tolist() == [1, 1, 1]


def test_calls_after_close_raise_the_type_of_gymnasium(envs):
    envs.reset(seed=1)
    envs.step_async(NOTHING)
    envs.close()
    late = (envs.reset, envs.reset_wait, envs.step_wait, lambda: envs.step(NOTHING), lambda: envs.step_async(NOTHING))
    for call in late:
        with pytest.raises(ClosedEnvironmentError, match="closed"):
            call()
