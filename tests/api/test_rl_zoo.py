"""RL Zoo's own way of making environments: SB3's ``make_vec_env`` with wrappers, monitor files and our ``VecEnv``."""

import os
import signal
import sys
from contextlib import closing

import cloudpickle
import gymnasium
import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.monitor import load_results
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from tiny_envs import Seeded

from ninelives.adapters.sb3 import VecEnv

# By value: a worker that imported this file would import SB3 and torch.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

N = 2
SHORT = {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "seed": 3, "device": "cpu"}

FORKED = {"start_method": "fork"}
"""Workers inherit SB3 and torch, which else each of them imports."""


class Halved(gymnasium.RewardWrapper):
    def reward(self, reward):
        return reward / 2


def made(cls, monitor_dir, env_id=Seeded):
    """As ``ExperimentManager.create_envs`` of rl_zoo3 does it; its log folder is a relative path by default."""
    spec = gymnasium.spec(env_id) if isinstance(env_id, str) else None

    def make_env(**kwargs):
        return spec.make(**kwargs) if spec else env_id(**kwargs)

    return make_vec_env(
        make_env, n_envs=N, seed=7, env_kwargs={}, monitor_dir=monitor_dir, wrapper_class=Halved,
        vec_env_cls=cls, vec_env_kwargs=FORKED if cls is VecEnv else {}, monitor_kwargs={},
    )  # fmt: skip


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_run_leaves_the_monitor_files_of_dummy_vec_env_where_the_program_runs():
    weights, episodes = [], []
    for cls in (DummyVecEnv, VecEnv):
        place = f"logs/{cls.__module__}/CartPole-v1_1"
        with closing(VecNormalize(made(cls, place, "CartPole-v1"))) as envs:
            weights.append(PPO("MlpPolicy", envs, **SHORT).learn(192).policy.state_dict())
        episodes.append(load_results(place)[["r", "l"]].sort_values(["r", "l"]).to_numpy())
    assert len(episodes[0]) > 4
    np.testing.assert_array_equal(*episodes)
    assert all((weights[0][name] == weights[1][name]).all() for name in weights[0])


def step(envs, times):
    return sum(int(envs.step(np.zeros(N, np.int64))[2].sum()) for _ in range(times))


def test_a_monitor_file_is_whole_after_a_restart():
    with closing(made(VecEnv, "logs")) as envs:
        envs.reset()
        ended = step(envs, 30)
        for pid in envs.pool.worker_pids:
            os.kill(pid, signal.SIGKILL)
        ended += step(envs, 30)
    assert len(load_results("logs")) == ended


def test_an_older_file_is_replaced_as_by_a_monitor():
    for _ in range(2):
        with closing(made(VecEnv, "logs")) as envs:
            envs.reset()
            ended = step(envs, 20)
    assert len(load_results("logs")) == ended


def test_an_absolute_path_is_left_to_the_monitor(tmp_path):
    with closing(made(VecEnv, str(tmp_path / "far"))) as envs:
        envs.reset()
        ended = step(envs, 20)
    assert len(load_results(str(tmp_path / "far"))) == ended
