"""Impossible settings are refused before anything starts, with key, value and what is allowed."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

from ninelives.errors import ConfigError
from ninelives.train import NetConfig, NormaliseConfig, PoolConfig, PpoConfig, TrainConfig


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: PpoConfig(learning_rate=0), r"learning_rate=0 must be greater than 0"),
        (lambda: PpoConfig(schedule="cosine"), r"schedule='cosine' is not known; allowed: 'linear', 'constant'"),
        (lambda: PpoConfig(n_steps=0), r"n_steps=0 must be a whole number, 1 or more"),
        (lambda: PpoConfig(epochs=2.5), r"epochs=2.5 must be a whole number"),
        (lambda: PpoConfig(gamma=1.5), r"gamma=1.5 must be between 0 and 1"),
        (lambda: PpoConfig(clip_value=0.0), r"clip_value=0.0 must be greater than 0"),
        (lambda: PpoConfig(entropy="a"), r"entropy='a' must be a number, not str"),
        (lambda: NetConfig(image="resnet"), r"image='resnet' is not known; allowed: 'auto', 'nature'"),
        (lambda: NetConfig(hidden=(64, 0)), r"hidden=0 must be a whole number"),
        (lambda: NetConfig(recurrent="rnn"), r"recurrent='rnn' is not known"),
        (lambda: NormaliseConfig(clip_reward=-1), r"clip_reward=-1 must be greater than 0"),
        (lambda: PoolConfig(autoreset="disabled"), r"autoreset='disabled' is not known; allowed: 'next_step'"),
        (lambda: PoolConfig(step_timeout_s=-1), r"step_timeout_s=-1 must be greater than zero"),
        (lambda: PoolConfig(ready=2, split=2), r"ready and split=2 exclude each other"),
        (lambda: TrainConfig(env="what?"), r"env='what\?' is not an environment"),
        (lambda: TrainConfig(env="CartPole-v1", timesteps=0), r"timesteps=0 must be a whole number, 1 or more"),
        (lambda: TrainConfig(env="CartPole-v1", n_envs="many"), r"n_envs='many' must be .*, or 'auto'"),
        (lambda: TrainConfig(env="CartPole-v1", overlap="yes"), r"overlap='yes' is not known; allowed: 'auto'"),
        (lambda: TrainConfig(env="CartPole-v1", resume=True), r"resume needs run_dir"),
        (lambda: TrainConfig(env="CartPole-v1", run_dir="x", resume=True, force=True), r"resume and force exclude"),
        (lambda: TrainConfig(env="CartPole-v1", run_dir="x", resume=True, model="m"), r"resume and model exclude"),
        (lambda: TrainConfig(env="CartPole-v1", net=NetConfig(bptt=7)), r"net.bptt=7 must divide ppo.n_steps=128"),
        (lambda: TrainConfig(env="CartPole-v1", n_envs=2, pool=PoolConfig(workers=3)), r"pool.workers=3 must not be"),
        (lambda: TrainConfig(env="CartPole-v1", n_envs=3, pool=PoolConfig(split=2)), r"needs an even n_envs, not 3"),
        (
            lambda: TrainConfig(env="CartPole-v1", n_envs=2, net=NetConfig(recurrent="gru")),
            r"ppo.minibatches=4 must not be greater than the 2 sequences of a rollout",
        ),
    ],
)
def test_impossible_settings_are_refused(make, words):
    with pytest.raises(ConfigError, match=words):
        make()


def test_settings_of_the_run_reach_the_environments_constructor():
    config = TrainConfig(env="CartPole-v1", env_kwargs={"level": 3}, frame_skip=4, state="start.state")
    assert config.env_spec.kwargs == {"level": 3, "frame_skip": 4, "state": "start.state"}
    with pytest.raises(ConfigError, match="frame_skip is given twice"):
        _ = dataclasses.replace(config, env_kwargs={"frame_skip": 2}).env_spec


def test_visualize_asks_gymnasium_for_images():
    assert TrainConfig(env="CartPole-v1", visualize=True).env_spec.kwargs == {"render_mode": "rgb_array"}
    assert TrainConfig(env="mygame:make", visualize=True).env_spec.kwargs == {}


def test_the_command_line_can_read_settings_without_torch():
    code = "import ninelives.train.config.classes, ninelives.train.callbacks, sys; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
