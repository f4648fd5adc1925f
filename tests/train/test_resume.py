"""A run that was interrupted and resumed ends with the weights of an uninterrupted one, bit for bit."""

from __future__ import annotations

import dataclasses
import os

import pytest
from plays import Tally

from ninelives.errors import CheckpointError, ConfigError
from ninelives.train import Callback, NetConfig, NormaliseConfig, PoolConfig, PpoConfig, TrainConfig, train
from ninelives.train.saving import checkpoint, resume
from ninelives.train.saving.checkpoint import Checkpoints

STEPS = 16 * 4 * 6
SMALL = TrainConfig(
    env="CartPole-v1",
    timesteps=STEPS,
    n_envs=4,
    seed=3,
    device="cpu",
    threads=1,
    overlap="off",
    checkpoint_every=64,
    ppo=PpoConfig(n_steps=16, epochs=2, minibatches=2, learning_rate=1e-3),
    pool=PoolConfig(workers=2),
)


class InterruptedTrainingError(Exception):
    """Stands for anything that ends a process."""


class Interrupt(Callback):
    """Ends the run right after the checkpoint of this step."""

    def __init__(self, step):
        self._step = step

    def on_checkpoint(self, written):
        if written.step == self._step:
            raise InterruptedTrainingError


def interrupted(config, at):
    with pytest.raises(InterruptedTrainingError):
        train(config, [Interrupt(at)])
    return train(dataclasses.replace(config, resume=True))


def varied(**changes):
    return dataclasses.replace(SMALL, **changes)


NORMALISED = NormaliseConfig(obs=True, reward=True)
TARGET_KL = dataclasses.replace(SMALL.ppo, target_kl=1e-4, epochs=4)
CONFIGS = {
    "same step, split, target KL": varied(pool=PoolConfig(workers=2, autoreset="same_step", split=2), ppo=TARGET_KL),
    "Box actions, normalised, GRU": varied(
        env="Pendulum-v1", normalise=NORMALISED, net=NetConfig(recurrent="gru", recurrent_size=8)
    ),
    "everything": varied(
        env=Tally, normalise=NORMALISED, net=NetConfig(image_features=16, recurrent="lstm", recurrent_size=8, bptt=8)
    ),
    "snapshots": varied(
        env="plays:Saved", net=NetConfig(image_features=16), pool=PoolConfig(workers=2, snapshot_every=5)
    ),
}
if os.environ.get("NINELIVES_FULL") == "1":
    CONFIGS |= {
        "same step": varied(pool=PoolConfig(workers=2, autoreset="same_step")),
        "Box actions, normalised": varied(env="Pendulum-v1", normalise=NORMALISED),
        "GRU": varied(net=NetConfig(recurrent="gru", recurrent_size=8)),
        "overlap": varied(overlap="on"),
        "split": varied(pool=PoolConfig(workers=2, split=2)),
        "target KL": varied(ppo=TARGET_KL),
    }


@pytest.fixture(scope="module")
def uninterrupted():
    """The hash of the weights of ``SMALL``, to compare with."""
    return train(SMALL).weights_sha256


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_a_resumed_run_ends_with_the_same_weights(config, tmp_path):
    whole = train(config)
    parts = interrupted(dataclasses.replace(config, run_dir=tmp_path / "run"), at=STEPS // 2)
    assert parts.weights_sha256 == whole.weights_sha256
    assert (parts.step, parts.episodes, parts.mean_return) == (whole.step, whole.episodes, whole.mean_return)


def test_interrupted_at_every_checkpoint(uninterrupted, tmp_path):
    config = dataclasses.replace(SMALL, run_dir=tmp_path / "run")
    with pytest.raises(InterruptedTrainingError):
        train(config, [Interrupt(64)])
    again = dataclasses.replace(config, resume=True)
    for step in range(128, STEPS, 64):
        with pytest.raises(InterruptedTrainingError):
            train(again, [Interrupt(step)])
    assert train(again).weights_sha256 == uninterrupted


def test_a_resumed_run_may_have_another_number_of_workers(uninterrupted, tmp_path):
    config = dataclasses.replace(SMALL, run_dir=tmp_path / "run")
    with pytest.raises(InterruptedTrainingError):
        train(config, [Interrupt(192)])
    result = train(dataclasses.replace(config, resume=True, pool=PoolConfig(workers=1)))
    assert result.weights_sha256 == uninterrupted


def test_checkpoints_change_nothing_and_a_finished_run_stays_as_it_is(uninterrupted, tmp_path):
    config = dataclasses.replace(SMALL, run_dir=tmp_path / "run")
    first = train(config)
    assert first.weights_sha256 == uninterrupted
    assert checkpoint.weights_sha256(Checkpoints(tmp_path / "run" / "checkpoints").newest()) == uninterrupted
    before = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    again = train(dataclasses.replace(config, resume=True))
    assert (again.weights_sha256, again.step) == (first.weights_sha256, first.step)
    assert sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir()) == before


def test_a_run_without_a_checkpoint_starts_again(uninterrupted, tmp_path):
    class AtOnce(Callback):
        def on_rollout(self, rollout):
            raise InterruptedTrainingError

    config = dataclasses.replace(SMALL, run_dir=tmp_path / "run")
    with pytest.raises(InterruptedTrainingError):
        train(config, [AtOnce()])
    assert train(dataclasses.replace(config, resume=True)).weights_sha256 == uninterrupted


def test_a_damaged_checkpoint_is_refused_and_the_previous_one_used_on_request(uninterrupted, tmp_path):
    config = dataclasses.replace(SMALL, run_dir=tmp_path / "run")
    with pytest.raises(InterruptedTrainingError):
        train(config, [Interrupt(256)])
    kept = Checkpoints(tmp_path / "run" / "checkpoints")
    newest = kept.newest()
    newest.write_bytes(newest.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=r"step-0*256\.ckpt is truncated.*--resume-previous"):
        train(dataclasses.replace(config, resume=True))
    result = train(dataclasses.replace(config, resume_previous=True))
    assert result.weights_sha256 == uninterrupted
    assert [path.name for path in kept.directory.glob("*.damaged")] == [newest.name + ".damaged"]


def test_a_run_is_not_resumed_with_other_settings(tmp_path):
    config = dataclasses.replace(SMALL, run_dir=tmp_path / "run")
    with pytest.raises(InterruptedTrainingError):
        train(config, [Interrupt(64)])
    other = dataclasses.replace(config, resume=True, seed=4, ppo=dataclasses.replace(SMALL.ppo, gamma=0.9))
    with pytest.raises(ConfigError) as caught:
        train(other)
    assert "ppo.gamma: 0.99 in the checkpoint, 0.9 now" in str(caught.value)
    assert "seed: 3 in the checkpoint, 4 now" in str(caught.value)
    assert "epochs" not in str(caught.value)


# ---- the two decisions -----------------------------------------------------------------------------------------------


def test_without_a_checkpoint_there_is_nothing_to_resume_from(tmp_path):
    assert resume.chosen(Checkpoints(tmp_path)) is None
    assert resume.chosen(Checkpoints(tmp_path), previous=True) is None


def test_all_checkpoints_damaged(tmp_path):
    kept = Checkpoints(tmp_path)
    kept.write({"weights": {}}, step=1, config={}).write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"all checkpoints in .* are damaged.*--force"):
        resume.chosen(kept, previous=True)


@pytest.mark.parametrize(
    ("saved", "now"),
    [
        ({"timesteps": 1, "log": {"window": 3}}, {"timesteps": 2, "log": {"window": 4}}),
        ({"pool": {"workers": 1, "autoreset": "next_step"}}, {"pool": {"workers": None, "autoreset": "next_step"}}),
        ({"net": {"hidden": [64, 64]}}, {"net": {"hidden": (64, 64)}}),
        ({"env_kwargs": {}}, {}),
        ({"env_kwargs": {"level": object()}}, {"env_kwargs": {"level": object()}}),
        ({"seed": 0}, {"seed": 0}),
    ],
)
def test_settings_that_may_change(saved, now):
    resume.check_same(saved, now)


@pytest.mark.parametrize(
    ("saved", "now", "words"),
    [
        ({"seed": 0}, {"seed": 1}, "seed: 0 in the checkpoint, 1 now"),
        ({"seed": 0}, {}, "seed: 0 in the checkpoint, None now"),
        ({"pool": {"split": 1}}, {"pool": {"split": 2}}, "pool.split: 1 in the checkpoint, 2 now"),
        ({"env_kwargs": {"a": 1}}, {"env_kwargs": {}}, "env_kwargs.a: 1 in the checkpoint, None now"),
        ({"net": {"hidden": None}}, {"net": {"hidden": (8,)}}, r"net.hidden: None in the checkpoint, \[8\] now"),
    ],
)
def test_settings_that_must_not_change(saved, now, words):
    with pytest.raises(ConfigError, match=words):
        resume.check_same(saved, now)
