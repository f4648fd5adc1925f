"""A whole run: what it tells, how it ends, and that its weights depend on nothing but its configuration."""

from __future__ import annotations

import dataclasses
import os
import signal

import numpy as np
import pytest
import torch
from gymnasium import spaces
from lessons import Locked, Odd

import ninelives
from ninelives.errors import ConfigError
from ninelives.events import FaultSeen, PoolStarted, SlotHealed
from ninelives.testing import Fragile, When
from ninelives.train import (
    Callback,
    NetConfig,
    NormaliseConfig,
    PoolConfig,
    PpoConfig,
    StopTraining,
    TrainConfig,
    train,
)
from ninelives.train.records import CheckpointWritten, EpisodeDone, RolloutDone

CONFIG = TrainConfig(
    env="CartPole-v1",
    n_envs=4,
    timesteps=4 * 16 * 4,
    ppo=PpoConfig(n_steps=16, minibatches=2, epochs=2),
    pool=PoolConfig(workers=1),
)


class Diary(Callback):
    """Writes down what it hears, and does something once."""

    def __init__(self, when="", do=None):
        self.names, self.facts, self._when, self._do = [], [], when, do

    def hear(self, name, fact):
        self.names.append(name)
        self.facts.append(fact)
        if name == self._when and self._do is not None:
            do, self._do = self._do, None
            do(fact)

    def of(self, kind):
        return [fact for fact in self.facts if isinstance(fact, kind)]

    def on_start(self, started):
        self.started = started
        self.hear("start", started)

    def on_rollout(self, rollout):
        self.hear("rollout", rollout)

    def on_update(self, update):
        self.hear("update", update)

    def on_episode(self, episode):
        self.hear("episode", episode)

    def on_fault(self, event):
        self.hear("fault", event)

    def on_event(self, event):
        self.facts.append(event)

    def on_checkpoint(self, written):
        self.hear("checkpoint", written)

    def on_end(self, result):
        self.hear("end", result)


def stop(_):
    raise StopTraining


def fail(_):
    raise ArithmeticError("the callback is broken")


def interrupt(_):
    os.kill(os.getpid(), signal.SIGINT)


def test_a_run_tells_its_story_in_order():
    diary = Diary()
    result = train(CONFIG, [diary])
    chapters = [name for name in diary.names if name != "episode"]
    assert chapters == ["start", *["rollout", "update"] * 4, "end"]
    assert result.step == CONFIG.timesteps
    assert result.version == 4
    assert result.episodes == diary.names.count("episode") > 0
    assert not result.stopped
    assert diary.started.config.n_envs == 4
    assert diary.started.workers == 1
    assert len(diary.of(PoolStarted)) == 1


def test_episodes_are_told_as_the_environment_counts_them():
    diary = Diary()
    train(CONFIG, [diary])
    episodes = diary.of(EpisodeDone)
    assert all(episode.total == episode.length >= 1 and 0 <= episode.slot < 4 for episode in episodes)
    steps = [episode.step for episode in episodes]
    assert steps == sorted(steps)
    assert max(steps) <= CONFIG.timesteps


@pytest.mark.parametrize("threads", [1, 2])
def test_the_weights_do_not_depend_on_the_threads_of_the_caller(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    wanted = train(CONFIG).weights_sha256
    torch.set_num_threads(threads)
    try:
        assert train(CONFIG).weights_sha256 == wanted
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_equal_configurations_give_equal_weights_whatever_the_workers():
    hashes = {train(dataclasses.replace(CONFIG, pool=PoolConfig(workers=n))).weights_sha256 for n in (1, 2, 4)}
    assert len(hashes) == 1
    assert train(dataclasses.replace(CONFIG, seed=1)).weights_sha256 not in hashes


@pytest.mark.parametrize(
    "change",
    [
        {"net": NetConfig(recurrent="lstm", bptt=8)},
        {"normalise": NormaliseConfig(obs=True, reward=True)},
        {"pool": PoolConfig(workers=2, autoreset="same_step")},
        {"pool": PoolConfig(workers=2, split=2)},
    ],
    ids=["lstm", "normalised", "same_step", "split"],
)
def test_a_killed_worker_changes_no_bit_of_the_weights(change):
    config = dataclasses.replace(CONFIG, pool=PoolConfig(workers=2))
    config = dataclasses.replace(config, **change)

    def kill(rollout):
        os.kill(diary.started.pool.worker_pids[0], signal.SIGKILL)

    diary = Diary("rollout", kill)
    quiet, disturbed = train(config), train(config, [diary])
    assert disturbed.weights_sha256 == quiet.weights_sha256
    assert diary.of(FaultSeen)
    assert diary.of(SlotHealed)
    assert "fault" in diary.names
    assert all(rollout.valid_share == 1.0 for rollout in diary.of(RolloutDone))


def test_the_global_generators_are_not_used_and_not_changed():
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    first = train(CONFIG)
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert (np.random.get_state()[1] == before[1]).all()
    torch.manual_seed(99)
    assert train(CONFIG).weights_sha256 == first.weights_sha256


def test_lost_rows_are_reported_and_never_learned_from():
    env = Fragile("abort", When("step", at=20, slots=(1,)))
    diary = Diary()
    train(dataclasses.replace(CONFIG, env=env, pool=PoolConfig(workers=4, on_fault="cut")), [diary])
    shares = [rollout.valid_share for rollout in diary.of(RolloutDone)]
    assert shares[0] == 1.0
    assert min(shares) < 1.0


@pytest.mark.parametrize("moment", ["start", "rollout", "update", "episode"])
def test_a_callback_can_end_a_run_in_good_order(moment, tmp_path):
    diary = Diary(moment, stop)
    result = train(dataclasses.replace(CONFIG, run_dir=tmp_path / "run"), [diary])
    assert result.stopped
    assert result.step == 64 * result.version  # only whole updates
    assert diary.names[-2:] == ["checkpoint", "end"]


def test_ctrl_c_ends_a_run_in_good_order():
    result = train(CONFIG, [Diary("rollout", interrupt)])
    assert result.stopped
    assert result.version == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("moment", ["start", "rollout", "update", "end"])
def test_a_broken_callback_ends_the_run_and_everything_is_closed(moment):
    with pytest.raises(ArithmeticError, match="the callback is broken"):
        train(CONFIG, [Diary(moment, fail)])


def test_an_error_in_on_fault_is_raised_too_and_not_inside_the_pool():
    def kill(rollout):
        os.kill(diary.started.pool.worker_pids[0], signal.SIGKILL)

    class Deaf(Callback):
        def on_fault(self, event):
            raise ArithmeticError("heard too much")

    diary = Diary("rollout", kill)
    with pytest.raises(ArithmeticError, match="heard too much"):
        train(CONFIG, [diary, Deaf()])


def test_masks_reach_every_action():
    diary = Diary()
    config = dataclasses.replace(CONFIG, env=Locked, pool=PoolConfig(workers=1, on_fault="raise"))
    result = train(config, [diary])
    assert result.mean_return == 20.0


def test_batches_are_shown_at_the_pace_that_was_asked_for():
    class Viewer(Callback):
        batch_every_s = 0.0
        shapes = ()

        def on_batch(self, pool, batch):
            self.shapes = (*self.shapes, batch.obs.shape)
            assert pool.call("spec")

    viewer = Viewer()
    train(dataclasses.replace(CONFIG, timesteps=64), [viewer])
    assert viewer.shapes == ((4, 4),) * 16


def test_checkpoints_are_written_where_they_are_due_and_at_the_end(tmp_path):
    diary = Diary()
    result = train(dataclasses.replace(CONFIG, run_dir=tmp_path / "run", checkpoint_every=100), [diary])
    written = diary.of(CheckpointWritten)
    assert [fact.step for fact in written] == [128, 256]
    assert all(fact.path.exists() for fact in written)
    assert result.run_dir == tmp_path / "run"


def test_a_run_can_begin_with_the_weights_of_another(tmp_path):
    first = train(dataclasses.replace(CONFIG, run_dir=tmp_path / "one", normalise=NormaliseConfig(obs=True)))
    model = next((tmp_path / "one" / "checkpoints").glob("*.ckpt"))
    still = PpoConfig(n_steps=16, minibatches=2, epochs=1, learning_rate=1e-30)
    second = train(dataclasses.replace(CONFIG, model=model, ppo=still, seed=5, normalise=NormaliseConfig(obs=True)))
    obs = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    one, two = first.policy.params(obs), second.policy.params(obs)
    assert second.step == CONFIG.timesteps
    torch.testing.assert_close(one, two, atol=0.02, rtol=0)  # the normaliser goes on learning


def test_weights_of_another_network_are_refused(tmp_path):
    train(dataclasses.replace(CONFIG, run_dir=tmp_path / "one", timesteps=64))
    model = next((tmp_path / "one" / "checkpoints").glob("*.ckpt"))
    with pytest.raises(ConfigError, match="do not fit this network"):
        train(dataclasses.replace(CONFIG, model=model, net=NetConfig(hidden=(8,))))


@pytest.mark.parametrize("overlap", ["off", "on"])
def test_a_run_goes_on_where_it_was_stopped_bit_for_bit(overlap, tmp_path):
    config = dataclasses.replace(CONFIG, overlap=overlap, normalise=NormaliseConfig(obs=True, reward=True))
    whole, first, second = Diary(), Diary("update", stop), Diary()
    uninterrupted = train(config, [whole])
    train(dataclasses.replace(config, run_dir=tmp_path / "run"), [first])
    resumed = train(dataclasses.replace(config, run_dir=tmp_path / "run", resume=True), [second])
    assert resumed.weights_sha256 == uninterrupted.weights_sha256
    assert resumed.episodes == uninterrupted.episodes
    assert resumed.mean_return == uninterrupted.mean_return
    assert second.started.step == 64
    told = [(episode.slot, episode.step, episode.total) for episode in first.of(EpisodeDone) + second.of(EpisodeDone)]
    assert told == [(episode.slot, episode.step, episode.total) for episode in whole.of(EpisodeDone)]


def test_the_result_acts():
    result = train(CONFIG)
    with ninelives.Pool("CartPole-v1", 4, workers=1) as pool:
        batch = pool.reset(seed=1)
        for _ in range(5):
            batch = pool.step(result.policy.actions(batch.obs))
    assert batch.valid.all()


def test_a_callable_environment_can_be_kept_too(tmp_path):
    result = train(dataclasses.replace(CONFIG, env=Locked, run_dir=tmp_path / "run", timesteps=64))
    assert (tmp_path / "run" / "config.yaml").read_text().count("Locked")
    assert result.step == 64


def test_an_environment_that_cannot_be_learned_leaves_nothing_running():
    space = ninelives.EnvSpec(Odd, {"observation_space": Locked.observation_space, "action_space": spaces.Text(3)})
    with pytest.raises(ConfigError, match="PPO cannot act in the action space"):
        train(dataclasses.replace(CONFIG, env=space))


def test_a_device_that_is_not_there_is_refused_before_anything_starts():
    with pytest.raises(ConfigError, match="device='xyz' cannot be used"):
        train(dataclasses.replace(CONFIG, device="xyz"))
