"""``n_envs="auto"``: measured once, explained, and never measured again for a run that is resumed."""

from __future__ import annotations

import pytest

from ninelives.cli.train import TrainCommand
from ninelives.train import Callback, PoolConfig, PpoConfig, TrainConfig, train
from ninelives.train.sizing import LEAST_PER_CORE, MOST_PER_CORE, Measured, choose, fewest_as_good, with_n_envs

GB = 10**9
MEASURE = "ninelives.train.sizing.measure"


def refuse_to_measure(spec):
    raise AssertionError("a resumed run was measured")


def test_cheaper_steps_get_more_environments():
    fast, slow = (choose(Measured(step_s, 1.0, 50_000_000), 4, 64 * GB) for step_s in (5e-6, 5e-3))
    assert fast.n_envs == 4 * MOST_PER_CORE
    assert slow.n_envs == 4 * LEAST_PER_CORE
    assert "5.0 ms a step" in slow.because


def test_steps_that_wait_get_more_environments():
    waiting = choose(Measured(5e-3, 0.1, 50_000_000), 4, 64 * GB)
    assert waiting.n_envs == 40
    assert "waits 90% of it" in waiting.because


def test_memory_limits_the_number():
    limited = choose(Measured(5e-6, 1.0, GB), 4, 10 * GB)
    assert limited.n_envs == 8
    assert "memory for 8 environments of 1000 MB" in limited.because


def test_the_number_is_measured_and_explained():
    config, (reason,) = with_n_envs(TrainConfig(env="CartPole-v1", n_envs="auto"))
    assert isinstance(config.n_envs, int)
    assert reason.startswith(f"n_envs={config.n_envs}: ")
    assert "us a step" in reason


def test_halves_need_an_even_number(monkeypatch):
    monkeypatch.setattr(MEASURE, lambda spec: Measured(1.0, 1.0, GB))
    monkeypatch.setattr("ninelives.host.free_bytes", lambda: 4 * GB)
    config, _ = with_n_envs(TrainConfig(env="CartPole-v1", n_envs="auto", pool=PoolConfig(split=2)))
    assert config.n_envs == 4  # memory holds three


def test_a_number_is_kept_as_it_is(monkeypatch):
    monkeypatch.setattr(MEASURE, refuse_to_measure)
    config = TrainConfig(env="CartPole-v1", n_envs=3)
    assert with_n_envs(config, resumed=4) == (config, ())


def test_the_benchmark_takes_the_fewest_that_are_about_as_fast():
    assert fewest_as_good({8: 500.0, 16: 980.0, 32: 1000.0}) == 16


class EndAt(Callback):
    """Raises at a moment of the first run."""

    def __init__(self, moment):
        setattr(self, moment, self._end)

    def _end(self, record):
        raise ArithmeticError


@pytest.mark.parametrize("moment", ["on_rollout", "on_checkpoint"], ids=["no checkpoint yet", "with a checkpoint"])
def test_auto_keeps_the_number_of_a_resumed_run_without_measuring(moment, tmp_path, monkeypatch, capsys):
    config = TrainConfig(
        env="CartPole-v1",
        n_envs=3,
        timesteps=48,
        overlap="off",
        checkpoint_every=8,
        run_dir=tmp_path / "run",
        ppo=PpoConfig(n_steps=8, minibatches=1, epochs=1),
        pool=PoolConfig(workers=1),
    )
    with pytest.raises(ArithmeticError):
        train(config, [EndAt(moment)])
    monkeypatch.setattr(MEASURE, refuse_to_measure)
    given = {"run_dir": tmp_path / "run", "resume": True, "n_envs": "auto", "log": {"tensorboard": False}}
    assert TrainCommand(given=given).run() == 0
    assert "n_envs=3: as in the run that is resumed" in capsys.readouterr().out
