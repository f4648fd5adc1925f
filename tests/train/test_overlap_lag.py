"""Overlap: a lag of exactly one, the same weights every time, and nothing left behind after an error."""

from __future__ import annotations

import dataclasses
import threading

import numpy as np
import pytest
import torch
from gymnasium import spaces
from lessons import Catch

from ninelives.errors import PoolExhaustedError
from ninelives.testing import Fragile, When
from ninelives.train import Callback, NetConfig, PoolConfig, PpoConfig, TrainConfig, train
from ninelives.train.overlap import CycleTimes, choose_overlap
from ninelives.train.policy.nets import Policy
from ninelives.train.sizing import choose_threads, operations

CONFIG = TrainConfig(
    env="CartPole-v1",
    n_envs=4,
    timesteps=4 * 16 * 6,
    overlap="on",
    ppo=PpoConfig(n_steps=16, minibatches=2, epochs=2),
    pool=PoolConfig(workers=2),
)


class Recording(Callback):
    def __init__(self):
        self.because, self.rollouts, self.updates, self.choices = (), [], [], []

    def on_start(self, started):
        self.because = started.because

    def on_rollout(self, rollout):
        self.rollouts.append(rollout)

    def on_update(self, update):
        self.updates.append(update)

    def on_choice(self, chosen):
        self.choices.append(chosen)


@pytest.fixture(scope="module")
def overlapped():
    """The recording and the weights of ``CONFIG``."""
    recording = Recording()
    return recording, train(CONFIG, [recording]).weights_sha256


def test_the_acting_policy_is_always_one_version_old(overlapped):
    recording, _ = overlapped
    assert [update.lag for update in recording.updates] == [0, 1, 1, 1, 1, 1]
    assert [rollout.version for rollout in recording.rollouts] == [0, 0, 1, 2, 3, 4]
    assert all(0 <= update.idle_collect <= 1 and 0 <= update.idle_learn <= 1 for update in recording.updates)


def test_the_same_seed_gives_the_same_weights_whatever_the_workers(overlapped):
    _, weights = overlapped
    assert train(dataclasses.replace(CONFIG, pool=PoolConfig(workers=4))).weights_sha256 == weights


def test_vtrace_and_a_recurrent_network_are_reproducible_too(overlapped):
    vtrace = PpoConfig(n_steps=16, minibatches=2, epochs=2, vtrace=True)
    config = dataclasses.replace(CONFIG, net=NetConfig(recurrent="lstm"))
    corrected = dataclasses.replace(config, ppo=vtrace)
    one, two = train(corrected), train(dataclasses.replace(corrected, pool=PoolConfig(workers=4)))
    assert one.weights_sha256 == two.weights_sha256
    assert one.weights_sha256 != train(config).weights_sha256, "V-trace changed nothing"


def test_an_error_in_the_collecting_thread_reaches_the_caller():
    env = Fragile("abort", When("step", at=30, again=True, generations=None))
    pool = PoolConfig(workers=2, max_restarts=3)
    with pytest.raises(PoolExhaustedError):
        train(dataclasses.replace(CONFIG, env=env, timesteps=10_000, pool=pool))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ninelives")]


def test_an_error_in_a_callback_ends_the_thread_too():
    class Broken(Callback):
        def on_rollout(self, rollout):
            if rollout.version == 2:
                raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        train(CONFIG, [Broken()])
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ninelives")]


def test_auto_measures_where_overlap_may_pay_and_reports_the_decision():
    recording = Recording()
    config = dataclasses.replace(CONFIG, env=Catch, overlap="auto", net=NetConfig(image_features=512))
    train(config, [recording])
    (chosen,) = recording.choices
    assert chosen.name == "overlap"
    assert chosen.because.startswith(f"overlap={chosen.value}: collecting ")


def test_auto_is_off_for_a_small_network_without_measuring_so_that_runs_stay_equal(overlapped):
    auto, off = Recording(), Recording()
    result = train(dataclasses.replace(CONFIG, overlap="auto"), [auto])
    assert not auto.choices
    assert [reason for reason in auto.because if reason.startswith("overlap=off: ")]
    assert result.weights_sha256 == train(dataclasses.replace(CONFIG, overlap="off"), [off]).weights_sha256
    assert [update.lag for update in off.updates] == [0] * 6
    assert result.weights_sha256 != overlapped[1]


def test_overlap_is_chosen_if_both_take_time_and_cores_are_idle():
    waiting = choose_overlap(CycleTimes(collect_s=1.0, learn_s=0.8, cpu_s=1.0), cores=2)
    assert waiting.value == 1
    assert "1.80 times as fast, limited by collecting" in waiting.because
    busy = choose_overlap(CycleTimes(collect_s=1.0, learn_s=0.8, cpu_s=3.5), cores=2)
    assert busy.value == 0
    assert "limited by 2 cores" in busy.because
    assert choose_overlap(CycleTimes(collect_s=1.0, learn_s=0.05, cpu_s=0.5), cores=2).value == 0


def test_threads_depend_on_the_work_and_not_on_the_workers():
    plain = dataclasses.replace(CONFIG, overlap="off")
    assert choose_threads(plain, 1e7, cores=8).value == 1
    assert choose_threads(plain, 1e10, cores=8).value == 8
    assert choose_threads(CONFIG, 1e10, cores=8).value == 7
    assert choose_threads(dataclasses.replace(CONFIG, threads=3), 1e7, cores=8).value == 3


def test_the_work_of_a_gradient_step_is_what_its_layers_do():
    vector = Policy(spaces.Box(-1, 1, (4,), np.float32), spaces.Discrete(2), NetConfig(hidden=()), torch.Generator())
    assert operations(CONFIG, 4, vector.multiplications()) == 6 * (4 * 2 + 2 + 4 + 1) * 32
    image = Policy(Catch.observation_space, spaces.Discrete(2), NetConfig(image_features=1), torch.Generator())
    kernels = (16 * 9 + 16) * 64 + (32 * 16 * 9 + 32) * 36
    assert image.multiplications() == kernels + (32 * 36 + 1) + (2 + 2) + (1 + 1)
