"""SB3's wrappers, evaluation, callbacks and learners on top of our ``VecEnv``."""

import sys
from contextlib import closing

import cloudpickle
import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    VecCheckNan,
    VecFrameStack,
    VecMonitor,
    VecNormalize,
    VecTransposeImage,
    is_vecenv_wrapped,
)
from tiny_envs import Chatty, Seeded, assert_same

from ninelives.adapters.sb3 import VecEnv

# By value: a worker that imported this file would import SB3 and torch.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

N = 3


class Camera(Seeded):
    observation_space = spaces.Box(0, 255, (36, 36, 1), np.uint8)

    def see(self):
        return self.np_random.integers(0, 256, (36, 36, 1), dtype=np.uint8)


class Sensors(Seeded):
    observation_space = spaces.Dict(camera=Camera.observation_space, body=spaces.Box(-9, 9, (2,), np.float32))

    def see(self):
        return {"camera": Camera.see(self), "body": np.array([self.count, -self.count], np.float32)}


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def opened(env, n_envs=N, wrap=lambda envs: envs, **settings):
    return closing(wrap(VecEnv(env, n_envs, **{"workers": 1, **settings})))


def comparable(infos, with_episodes):
    """Infos without times; and without episodes where only ours have them, SB3 having no Monitor there."""
    for info in infos:
        episode = info.pop("episode", None)
        if episode and with_episodes:
            info["episode"] = {"r": episode["r"], "l": episode["l"]}
    return infos


WRAPPERS = {
    "normalized": (VecNormalize, Chatty),
    "stacked frames": (lambda envs: VecTransposeImage(VecFrameStack(envs, 3)), Camera),
    "normalized dict": (lambda envs: VecNormalize(envs, norm_obs_keys=["body"]), Sensors),
    "checked for nan": (lambda envs: VecCheckNan(envs, raise_exception=True), Chatty),
    "monitored": (VecMonitor, Chatty),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_a_wrapper_of_sb3_gives_the_same_as_on_dummy_vec_env(name):
    wrap, env = WRAPPERS[name]
    theirs = wrap(DummyVecEnv([env] * N))
    with opened(env, wrap=wrap) as ours:
        assert ours.observation_space == theirs.observation_space
        for envs in (ours, theirs):
            envs.seed(5)
        assert_same(ours.reset(), theirs.reset())
        for i in range(25):
            (*mine, infos), (*wanted, wanted_infos) = (envs.step(np.zeros(N, np.int64)) for envs in (ours, theirs))
            assert_same(mine, wanted, f"step {i}")
            assert_same(*(comparable(each, name == "monitored") for each in (infos, wanted_infos)), f"infos {i}")


def test_a_monitor_writes_its_file(tmp_path):
    with opened("CartPole-v1", wrap=lambda envs: VecMonitor(envs, str(tmp_path / "log"))) as envs:
        envs.seed(1)
        envs.reset()
        while envs.episode_count < 5:
            envs.step(np.ones(N, np.int64))
    head, names, *episodes = (tmp_path / "log.monitor.csv").read_text().splitlines()
    assert (head[0], names) == ("#", "r,l,t")
    assert len(episodes) == envs.episode_count


class Follow:
    """A policy that pushes to where the pole falls: it balances for a while, and needs no training."""

    def predict(self, observation, state=None, episode_start=None, deterministic=True):
        return (observation[:, 2] + observation[:, 3] > 0).astype(np.int64), state


def test_a_policy_is_evaluated_as_on_dummy_vec_env():
    results = []
    with opened("CartPole-v1", wrap=VecMonitor) as ours:
        for envs in (ours, VecMonitor(DummyVecEnv([lambda: gymnasium.make("CartPole-v1")] * N))):
            envs.seed(5)
            results.append(evaluate_policy(Follow(), envs, n_eval_episodes=6, return_episode_rewards=True))
    assert results[0] == results[1]
    assert np.mean(results[0][0]) > 50


def test_callbacks_evaluate_keep_the_best_and_read_episode_statistics(tmp_path):
    with opened("CartPole-v1", 4) as envs, opened("CartPole-v1", 2) as judges:
        settings = {"n_eval_episodes": 4, "eval_freq": 64, "verbose": 0, "warn": False}
        callback = EvalCallback(judges, best_model_save_path=str(tmp_path), **settings)
        model = PPO("MlpPolicy", envs, n_steps=64, batch_size=64, n_epochs=2, seed=1, device="cpu")
        model.learn(512, callback=callback)
        assert callback.best_mean_reward > 5
        assert (tmp_path / "best_model.zip").exists()
        assert len(model.ep_info_buffer) > 5, "no Monitor is needed for ep_rew_mean"
        assert 8 < np.mean([episode["r"] for episode in model.ep_info_buffer]) < 200


@pytest.mark.parametrize(("env", "policy"), [(Camera, "CnnPolicy"), (Sensors, "MultiInputPolicy")])
def test_learners_take_images_and_dicts(env, policy):
    with opened(env) as envs:
        model = PPO(policy, envs, n_steps=16, batch_size=24, n_epochs=1, seed=1, device="cpu")
        assert is_vecenv_wrapped(model.get_env(), VecTransposeImage)
        model.learn(2 * 16 * N)
        assert model.num_timesteps == 2 * 16 * N


def test_a_learner_with_a_replay_buffer_bootstraps_at_time_limits():
    with opened(Seeded) as envs:
        model = DQN("MlpPolicy", envs, buffer_size=300, learning_starts=50, train_freq=8, seed=1, device="cpu")
        model.learn(300)
        dones, limits = model.replay_buffer.dones, model.replay_buffer.timeouts
        assert 0 < limits.sum() < dones.sum()


def test_a_saved_model_goes_on_where_it_stopped_with_new_environments(tmp_path):
    settings = {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "seed": 3, "device": "cpu"}
    with opened("CartPole-v1") as first, opened("CartPole-v1", wrap=VecNormalize) as second:
        model = PPO("MlpPolicy", first, **settings).learn(96)
        model.save(tmp_path / "model")
        observation = first.reset()
        loaded = PPO.load(tmp_path / "model", env=first, device="cpu")
        assert_same(loaded.predict(observation, deterministic=True), model.predict(observation, deterministic=True))
        loaded.set_env(second)
        loaded.learn(96, reset_num_timesteps=False)
        assert loaded.num_timesteps == 192
        second.save(tmp_path / "statistics")
        again = VecNormalize.load(tmp_path / "statistics", first)
        assert_same(again.obs_rms.mean, second.obs_rms.mean)


@pytest.mark.timeout(180)
def test_ppo_learns_cartpole():
    with opened("CartPole-v1", 8) as envs:
        model = PPO(
            "MlpPolicy", envs, n_steps=64, batch_size=128, n_epochs=10, gae_lambda=0.8, gamma=0.98, seed=1,
            learning_rate=lambda left: 1e-3 * left, clip_range=lambda left: 0.2 * left, device="cpu",
        )  # fmt: skip
        model.learn(25_000)
        returns = [episode["r"] for episode in model.ep_info_buffer]
    assert np.mean(returns[-20:]) >= 150, f"a random policy has about 22; the last episodes: {returns}"
