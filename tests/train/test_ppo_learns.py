"""PPO learns: each task needs one thing to be right. ``NINELIVES_FULL=1`` adds seeds and variants."""

from __future__ import annotations

import dataclasses
import os

import pytest
import torch
from lessons import Aim, Catch, Endless, Recall

from ninelives import EnvSpec
from ninelives.train import NetConfig, NormaliseConfig, PoolConfig, PpoConfig, TrainConfig, train

FULL = os.environ.get("NINELIVES_FULL") == "1"
SEEDS = range(5 if FULL else 1)

CARTPOLE = TrainConfig(
    env="CartPole-v1",
    timesteps=28_000,
    ppo=PpoConfig(learning_rate=1e-3, n_steps=64, minibatches=4, epochs=8, gamma=0.98, gae_lambda=0.9, entropy=0.0),
    pool=PoolConfig(workers=1),
)


@pytest.mark.parametrize("seed", SEEDS)
def test_cartpole_improves(seed):
    result = train(dataclasses.replace(CARTPOLE, seed=seed))
    assert result.mean_return > 150


def test_convolutions_learn_from_pixels():
    config = TrainConfig(
        env=Catch,
        timesteps=10_000,
        overlap="off",
        net=NetConfig(image_features=64),
        ppo=PpoConfig(learning_rate=2e-3, n_steps=64, minibatches=4, epochs=4, gamma=0.9),
        pool=PoolConfig(workers=1),
    )
    assert train(config).mean_return > 0.8


RECALL = TrainConfig(
    env=Recall,
    timesteps=16_000,
    n_envs=16,
    ppo=PpoConfig(learning_rate=5e-3, n_steps=32, minibatches=2, epochs=4, gamma=0.95, entropy=0.003),
    pool=PoolConfig(workers=1),
)


@pytest.mark.parametrize("kind", ["lstm", "gru"] if FULL else ["lstm"])
def test_a_recurrent_network_learns_a_task_that_needs_memory(kind):
    net = NetConfig(recurrent=kind, recurrent_size=16)
    assert train(dataclasses.replace(RECALL, net=net)).mean_return > 0.9


@pytest.mark.skipif(not FULL, reason="the control of the test above; NINELIVES_FULL=1 runs it")
def test_a_network_without_memory_does_not():
    assert train(RECALL).mean_return < 0.75


ENDINGS = [("next_step", True, 2.3), ("same_step", False, 10.0)]
MORE_ENDINGS = [("next_step", False, 10.0), ("same_step", True, 2.3)]


@pytest.mark.parametrize(("autoreset", "terminates", "worth"), ENDINGS + (MORE_ENDINGS if FULL else []))
def test_truncation_is_not_termination(autoreset, terminates, worth):
    """A reward of 1 in each step for ever is worth 1 / (1 - 0.9) = 10, however often the episode is truncated.

    If the fourth step terminates the episode, the value is the mean of 1, 1.9, 2.71 and 3.44: about 2.3.
    """
    config = TrainConfig(
        env=EnvSpec(Endless, {"length": 4, "terminates": terminates}),
        timesteps=6_000,
        n_envs=4,
        net=NetConfig(hidden=()),
        ppo=PpoConfig(learning_rate=0.03, n_steps=16, minibatches=1, epochs=8, gamma=0.9, schedule="constant"),
        pool=PoolConfig(workers=1, autoreset=autoreset),
    )
    policy = train(config).policy.policy
    with torch.no_grad():
        value = policy.values(torch.ones(1, 1)).item()
    assert value == pytest.approx(worth, abs=0.8)


def test_continuous_actions_are_learned_with_observations_and_rewards_normalised():
    config = TrainConfig(
        env=Aim,
        timesteps=15_000,
        normalise=NormaliseConfig(obs=True, reward=True),
        ppo=PpoConfig(learning_rate=3e-3, n_steps=32, minibatches=4, epochs=4, gamma=0.5, entropy=0.0),
        net=NetConfig(log_std=-0.5),
        pool=PoolConfig(workers=1),
    )
    assert train(config).mean_return > -2.0
