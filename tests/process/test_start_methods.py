"""Three ways to start a worker, four ways to name an environment: the same rows, and a parent that builds nothing."""

from __future__ import annotations

import os
import sys
import threading

import gymnasium
import numpy as np
import pytest
from places import Introspective, Odd

import ninelives
from ninelives.testing import CountingEnv, Referee
from ninelives.testing.counting import ACTIONS

METHODS = ["fork", "forkserver", "spawn"]


def rows(pool, steps=20):
    """All observations of a short run, checked row by row."""
    referee, seen = Referee(pool.num_envs), []
    batch = pool.reset(seed=11)
    referee.reset(batch)
    for step in range(steps):
        seen.append(batch.obs)
        actions = (np.arange(pool.num_envs) + step) % ACTIONS
        batch = pool.step(actions)
        referee.step(actions, batch)
    return np.array(seen)


@pytest.fixture(scope="module")
def expected():
    with ninelives.Pool(CountingEnv, 5, workers=1, start_method="fork") as pool:
        return rows(pool)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("workers", [2, 5])
def test_rows_depend_neither_on_the_start_method_nor_on_the_number_of_workers(method, workers, expected):
    with ninelives.Pool(CountingEnv, 5, workers=workers, start_method=method) as pool:
        assert np.array_equal(rows(pool), expected)


@pytest.mark.parametrize("method", METHODS)
def test_environments_live_in_their_workers_and_never_in_the_parent(method):
    with ninelives.Pool(Introspective, 4, workers=2, start_method=method) as pool:
        pids = pool.call("pid")
        assert os.getpid() not in pids
        assert pids == (pool.worker_pids[0],) * 2 + (pool.worker_pids[1],) * 2
        assert [pool.slots_of(worker) for worker in range(2)] == [(0, 1), (2, 3)]


@pytest.mark.parametrize("method", METHODS)
def test_environment_given_by_path_is_never_imported_by_the_parent(method, tmp_path, monkeypatch):
    (tmp_path / "fragile_simulator.py").write_text("from ninelives.testing import CountingEnv as Simulator\n")
    monkeypatch.syspath_prepend(tmp_path)
    with ninelives.Pool("fragile_simulator:Simulator", 2, workers=1, start_method=method) as pool:
        assert pool.reset(seed=1).valid.all()
    assert "fragile_simulator" not in sys.modules


@pytest.mark.parametrize("method", METHODS)
def test_environment_is_a_gymnasium_id_or_a_spec_or_a_closure(method):
    colour = "white"
    for env, colours in [
        (ninelives.EnvSpec("CartPole-v1", {"max_episode_steps": 7}), None),
        (ninelives.EnvSpec(Introspective, {"colour": "grey"}), "grey"),
        (lambda: Introspective(colour=colour), "white"),
    ]:
        with ninelives.Pool(env, 2, workers=1, start_method=method) as pool:
            assert pool.reset(seed=1).valid.all()
            assert colours is None or pool.call("colour") == (colours, colours)


def test_spaces_metadata_and_spec_come_from_the_workers():
    with ninelives.Pool("CartPole-v1", 2, workers=1) as pool:
        own = gymnasium.make("CartPole-v1")
        assert pool.observation_space == own.observation_space
        assert pool.action_space == own.action_space
        assert pool.metadata["render_fps"] == own.metadata["render_fps"]
        assert pool.env_spec.id == "CartPole-v1"
        own.close()


def test_environment_that_cannot_be_pickled_needs_fork_and_the_message_says_so():
    lock = threading.Lock()

    def make():
        assert lock is not None
        return CountingEnv()

    with pytest.raises(ninelives.ConfigError, match=r"cannot be sent to a worker(.|\n)*start_method='fork'"):
        ninelives.Pool(make, 2, workers=1)
    with ninelives.Pool(make, 2, workers=1, start_method="fork") as pool:
        assert pool.reset(seed=1).valid.all()


@pytest.mark.parametrize("workers", [1, 2])
def test_slots_with_different_spaces_are_refused(workers):
    with pytest.raises((ninelives.WorkerStartError, ninelives.ConfigError), match="other spaces"):
        ninelives.Pool(Odd, 2, workers=workers, start_method="fork", start_attempts=1)


@pytest.mark.parametrize("method", METHODS)
def test_workers_do_not_share_the_state_of_global_random_generators(method):
    with ninelives.Pool(Introspective, 3, workers=3, start_method=method) as pool:
        drawn = pool.call("drawn")
    assert len({python for python, _ in drawn}) == 3
    assert len({numpy for _, numpy in drawn}) == 3


def test_unknown_setting_is_answered_with_the_nearest_name():
    with pytest.raises(ninelives.ConfigError, match="did you mean 'start_method'"):
        ninelives.Pool(CountingEnv, 2, start_methd="fork")


def test_sinks_receive_the_start_and_the_end():
    received = []

    class Receiver:
        def emit(self, event):
            received.append(type(event).__name__)

    ninelives.Pool(CountingEnv, 2, workers=2, start_method="fork", sinks=[Receiver()]).close()
    assert received.count("WorkerReady") == 2
    assert received.index("WorkerReady") < received.index("PoolStarted") < received.index("PoolClosed")
