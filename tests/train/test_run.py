"""A whole run: what it reports, how it ends, and that its weights depend only on its configuration."""

from __future__ import annotations

import dataclasses
import os
import signal
from functools import partial

import numpy as np
import pytest
import torch
from gymnasium import spaces
from lessons import Chatty, Locked, Odd

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


class Recording(Callback):
    """Records all reports, and does something at the first one with a given name."""

    def __init__(self, when="", do=None):
        self.names, self.records, self._when, self._do = [], [], when, do

    def record(self, name, record):
        self.names.append(name)
        self.records.append(record)
        if name == self._when and self._do is not None:
            do, self._do = self._do, None
            do(record)

    def of(self, kind):
        return [record for record in self.records if isinstance(record, kind)]

    def episodes(self):
        return [(episode.slot, episode.step, episode.total) for episode in self.of(EpisodeDone)]

    def on_start(self, started):
        self.started = started
        self.record("start", started)

    def on_rollout(self, rollout):
        self.record("rollout", rollout)

    def on_update(self, update):
        self.record("update", update)

    def on_episode(self, episode):
        self.record("episode", episode)

    def on_fault(self, event):
        self.record("fault", event)

    def on_event(self, event):
        self.records.append(event)

    def on_checkpoint(self, written):
        self.record("checkpoint", written)

    def on_end(self, result):
        self.record("end", result)


def stop(_):
    raise StopTraining


def fail(_):
    raise ArithmeticError("the callback is broken")


def interrupt(_):
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(scope="module")
def undisturbed():
    """The result of ``CONFIG``, to compare with."""
    return train(CONFIG)


def test_a_run_reports_in_order():
    recording = Recording()
    result = train(CONFIG, [recording])
    names = [name for name in recording.names if name != "episode"]
    assert names == ["start", *["rollout", "update"] * 4, "end"]
    assert result.step == CONFIG.timesteps
    assert result.version == 4
    assert result.episodes == recording.names.count("episode") > 0
    assert not result.stopped
    assert recording.started.config.n_envs == 4
    assert recording.started.workers == 1
    assert len(recording.of(PoolStarted)) == 1
    episodes = recording.of(EpisodeDone)
    assert all(episode.total == episode.length >= 1 and 0 <= episode.slot < 4 for episode in episodes)
    steps = [episode.step for episode in episodes]
    assert steps == sorted(steps)
    assert max(steps) <= CONFIG.timesteps


def test_the_weights_do_not_depend_on_threads_workers_or_global_generators(undisturbed):
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    torch.manual_seed(99)
    generators = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    try:
        again = train(dataclasses.replace(CONFIG, pool=PoolConfig(workers=4)))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert again.weights_sha256 == undisturbed.weights_sha256
    assert torch.equal(torch.random.get_rng_state(), generators[0])
    assert (np.random.get_state()[1] == generators[1]).all()


def test_another_seed_gives_other_weights(undisturbed):
    assert train(dataclasses.replace(CONFIG, seed=1)).weights_sha256 != undisturbed.weights_sha256


@pytest.mark.parametrize(
    "change",
    [
        {"net": NetConfig(recurrent="lstm", bptt=8), "normalise": NormaliseConfig(obs=True, reward=True)},
        {"pool": PoolConfig(workers=2, autoreset="same_step", split=2)},
    ],
    ids=["lstm, normalised", "same_step, split"],
)
def test_a_killed_worker_changes_no_bit_of_the_weights(change):
    config = dataclasses.replace(CONFIG, pool=PoolConfig(workers=2))
    config = dataclasses.replace(config, **change)

    def kill(rollout):
        os.kill(recording.started.pool.worker_pids[0], signal.SIGKILL)

    recording = Recording("rollout", kill)
    expected, disturbed = train(config), train(config, [recording])
    assert disturbed.weights_sha256 == expected.weights_sha256
    assert recording.of(FaultSeen)
    assert recording.of(SlotHealed)
    assert "fault" in recording.names
    assert all(rollout.valid_share == 1.0 for rollout in recording.of(RolloutDone))


def test_lost_rows_are_reported_and_never_learned_from():
    env = Fragile("abort", When("step", at=20, slots=(1,)))
    recording = Recording()
    train(dataclasses.replace(CONFIG, env=env, pool=PoolConfig(workers=4, on_fault="cut")), [recording])
    shares = [rollout.valid_share for rollout in recording.of(RolloutDone)]
    assert shares[0] == 1.0
    assert min(shares) < 1.0


@pytest.mark.parametrize("moment", ["start", "episode"])
def test_a_callback_can_stop_a_run(moment, tmp_path):
    recording = Recording(moment, stop)
    result = train(dataclasses.replace(CONFIG, run_dir=tmp_path / "run"), [recording])
    assert result.stopped
    assert result.step == 64 * result.version  # only whole updates
    assert recording.names[-2:] == ["checkpoint", "end"]


def test_ctrl_c_stops_a_run():
    result = train(CONFIG, [Recording("rollout", interrupt)])
    assert result.stopped
    assert result.version == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("moment", ["rollout", "end"])
def test_a_broken_callback_ends_the_run_and_everything_is_closed(moment):
    with pytest.raises(ArithmeticError, match="the callback is broken"):
        train(CONFIG, [Recording(moment, fail)])


def test_an_error_in_on_fault_is_raised_outside_the_pool():
    def kill(rollout):
        os.kill(recording.started.pool.worker_pids[0], signal.SIGKILL)

    class Failing(Callback):
        def on_fault(self, event):
            raise ArithmeticError("the callback is broken")

    recording = Recording("rollout", kill)
    with pytest.raises(ArithmeticError, match="the callback is broken"):
        train(CONFIG, [recording, Failing()])


def test_masks_reach_every_action():
    recording = Recording()
    config = dataclasses.replace(CONFIG, env=Locked, pool=PoolConfig(workers=1, on_fault="raise"))
    result = train(config, [recording])
    assert result.mean_return == 20.0


def test_on_batch_is_called_as_often_as_configured():
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
    recording = Recording()
    result = train(dataclasses.replace(CONFIG, run_dir=tmp_path / "run", checkpoint_every=100), [recording])
    written = recording.of(CheckpointWritten)
    assert [record.step for record in written] == [128, 256]
    assert all(record.path.exists() for record in written)
    assert result.run_dir == tmp_path / "run"


def test_a_run_can_start_with_the_weights_of_another(tmp_path):
    first = train(dataclasses.replace(CONFIG, run_dir=tmp_path / "one", normalise=NormaliseConfig(obs=True)))
    model = next((tmp_path / "one" / "checkpoints").glob("*.ckpt"))
    still = PpoConfig(n_steps=16, minibatches=2, epochs=1, learning_rate=1e-30)
    second = train(dataclasses.replace(CONFIG, model=model, ppo=still, seed=5, normalise=NormaliseConfig(obs=True)))
    obs = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    one, two = first.policy.params(obs), second.policy.params(obs)
    assert second.step == CONFIG.timesteps
    torch.testing.assert_close(one, two, atol=0.02, rtol=0)  # the normaliser keeps learning
    theirs, ours = first.policy.policy.state_dict(), second.policy.policy.state_dict()
    assert all(torch.allclose(theirs[name], ours[name]) for name in theirs)


def test_weights_of_another_network_are_refused(tmp_path):
    train(dataclasses.replace(CONFIG, run_dir=tmp_path / "one", timesteps=64))
    model = next((tmp_path / "one" / "checkpoints").glob("*.ckpt"))
    with pytest.raises(ConfigError, match="do not fit this network"):
        train(dataclasses.replace(CONFIG, model=model, net=NetConfig(hidden=(8,))))


def test_a_stopped_run_is_resumed_bit_for_bit_with_a_rollout_collected_ahead(tmp_path):
    config = dataclasses.replace(CONFIG, overlap="on", normalise=NormaliseConfig(obs=True, reward=True))
    whole, first, second = Recording(), Recording("update", stop), Recording()
    uninterrupted = train(config, [whole])
    train(dataclasses.replace(config, run_dir=tmp_path / "run"), [first])
    resumed = train(dataclasses.replace(config, run_dir=tmp_path / "run", resume=True), [second])
    assert resumed.weights_sha256 == uninterrupted.weights_sha256
    assert resumed.episodes == uninterrupted.episodes
    assert resumed.mean_return == uninterrupted.mean_return
    assert second.started.step == 64
    assert first.episodes() + second.episodes() == whole.episodes()


def test_the_result_acts(undisturbed):
    with ninelives.Pool("CartPole-v1", 4, workers=1) as pool:
        batch = pool.reset(seed=1)
        for _ in range(5):
            batch = pool.step(undisturbed.policy.actions(batch.obs))
    assert batch.valid.all()


def test_a_callable_environment_can_be_saved_too(tmp_path):
    result = train(dataclasses.replace(CONFIG, env=Locked, run_dir=tmp_path / "run", timesteps=64))
    assert (tmp_path / "run" / "config.yaml").read_text().count("Locked")
    assert result.step == 64


def test_an_unsupported_action_space_leaves_nothing_running():
    space = ninelives.EnvSpec(Odd, {"observation_space": Locked.observation_space, "action_space": spaces.Text(3)})
    with pytest.raises(ConfigError, match="PPO cannot act in the action space"):
        train(dataclasses.replace(CONFIG, env=space))


def test_a_missing_device_is_refused_before_anything_starts():
    with pytest.raises(ConfigError, match="device='xyz' cannot be used"):
        train(dataclasses.replace(CONFIG, device="xyz"))


def test_the_trainer_asks_for_no_infos_that_it_does_not_read():
    pool = dataclasses.replace(CONFIG.pool, on_fault="raise")
    train(dataclasses.replace(CONFIG, env=partial(Chatty, secret=len), pool=pool))


def test_a_callback_that_receives_batches_gets_all_infos():
    seen = []

    class Reader(Callback):
        batch_every_s = 0.0

        def on_batch(self, pool, batch):
            seen.extend(batch.infos["x"].tolist())

    train(dataclasses.replace(CONFIG, env=Chatty), callbacks=[Reader()])
    assert set(seen) <= {0.5, 1.5}
    assert 1.5 in seen
