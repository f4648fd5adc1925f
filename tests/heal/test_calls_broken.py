"""A call returns its result or an error that says what failed; it is never lost silently and never made twice."""

import os
import signal

import numpy as np
import pytest
from called_games import BuiltTwice, Counter, Personal

import ninelives
from ninelives import CheckpointError, EnvRaisedError, WorkerCrashedError
from ninelives.spec.call import CallRequest

NOOP = np.zeros(2, np.int64)


def test_a_call_into_a_slot_that_cannot_be_healed_says_so_and_the_next_one_is_made():
    with ninelives.Pool(Personal, 1, workers=1, snapshot_every=5, backoff_s=0.0) as pool:
        pool.reset(seed=0)
        for _ in range(13):
            pool.step(NOOP[:1])
        os.kill(pool.worker_pids[0], signal.SIGKILL)
        with pytest.raises(WorkerCrashedError, match="killed by SIGKILL"):
            pool.call("touch")
        with pytest.raises(WorkerCrashedError, match="the replay of 13 steps differs at step"):
            pool.call("touch")
        assert pool.call("touch") == (1,)
        assert not pool.step(NOOP[:1]).valid


def test_an_environment_that_cannot_be_built_anew_for_a_call_is_an_error():
    with ninelives.Pool(BuiltTwice, 2, workers=1, on_fault="cut", start_method="fork") as pool:
        pool.reset(seed=0)
        pool.call("touch")
        assert pool.step(np.array([1, 0])).valid.tolist() == [False, True]
        with pytest.raises(EnvRaisedError, match="no third one"):
            pool.call("touch")


def test_an_environment_that_cannot_be_built_anew_for_a_state_is_an_error():
    with ninelives.Pool(BuiltTwice, 2, workers=1, start_method="fork") as pool:
        pool.reset(seed=0)
        pool.step(NOOP)
        with pytest.raises(
            CheckpointError, match=r"slots \[1\] could not be put into the states: OSError: no third one"
        ):
            pool.broadcast_state(0)


def test_calls_that_were_made_beside_one_that_died_are_repeated_when_their_slots_are_healed():
    with ninelives.Pool(Counter, 2, workers=2) as pool:
        pool.reset(seed=0)
        requests = [CallRequest("call", name) for name in ("die", "touch")]
        with pytest.raises(WorkerCrashedError):
            pool.request(requests)
        assert pool.step(NOOP).obs.tolist() == [[1.0], [11.0]]
        os.kill(pool.worker_pids[1], signal.SIGKILL)
        assert pool.step(NOOP).obs.tolist() == [[2.0], [12.0]]
