"""Trains briefly with different numbers of environments and recommends one."""

from __future__ import annotations

import importlib.util
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ninelives.errors import ConfigError
from ninelives.train import records
from ninelives.train.callbacks import Callback, StopTraining
from ninelives.train.config.classes import TrainConfig
from ninelives.train.config.layers import Setting, from_file, resolve
from ninelives.train.sizing import fewest_as_good

WARM_UP = 2
"""Rollouts that do not count: torch warms up, and overlapping is tried out."""

FOREVER = 10**12


@dataclass(frozen=True)
class TrainMeasurement:
    """How training performed with this number of environments."""

    n_envs: int
    workers: int
    overlap: str
    steps_per_s: float
    idle_collect: float
    idle_learn: float


@dataclass
class TrainBenchRunner:
    """One run of the benchmark."""

    config: TrainConfig
    deadline_s: float
    measured: list[TrainMeasurement] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, env: str, kwargs: Mapping[str, Any], file: Path | None, seconds: float) -> TrainBenchRunner:
        """For an environment, with the settings of a file.

        Raises:
            ConfigError: torch is missing, or the file is wrong.
        """
        if importlib.util.find_spec("torch") is None:
            raise ConfigError("training needs torch: pip install 'ninelives[train]'")
        given = [Setting("env", env, "ENV"), *([Setting("env_kwargs", dict(kwargs), "--env-kwargs")] if kwargs else [])]
        config = resolve(TrainConfig, [] if file is None else from_file(TrainConfig, file), given)
        measured = replace(config, timesteps=FOREVER, run_dir=None, resume=False, resume_previous=False, force=False)
        return cls(measured, time.monotonic() + seconds)

    def measure_all(self, numbers: Sequence[int]) -> None:
        """Measure in order, each with its share of the remaining time; the first one always."""
        for done, n_envs in enumerate(sorted(set(numbers))):
            left = self.deadline_s - time.monotonic()
            if self.measured and left <= 0:
                self.skipped.append(n_envs)
                continue
            print(
                f"measuring {done + 1}/{len(numbers)}: training on {n_envs} environments", file=sys.stderr, flush=True
            )
            self.measured.append(self._measure(n_envs, left / (len(set(numbers)) - done)))

    def _measure(self, n_envs: int, seconds: float) -> TrainMeasurement:
        from ninelives.train.run import train as run_training

        sampler = SpeedSampler(seconds)
        run_training(replace(self.config, n_envs=n_envs), [sampler])
        return sampler.measurement(n_envs)


class SpeedSampler(Callback):
    """Ends a run after some time and reports its speed without the warm-up."""

    def __init__(self, seconds: float) -> None:
        self._ends_s, self._workers, self._overlap = time.monotonic() + seconds, 0, ""
        self._rollouts: list[records.RolloutDone] = []
        self._updates: list[records.UpdateDone] = []

    def on_start(self, started: records.Started) -> None:
        """Note the workers and the overlap."""
        self._workers, self._overlap = started.workers, started.config.overlap

    def on_choice(self, chosen: records.SettingChosen) -> None:
        """Start over: from here on the run keeps its settings."""
        if chosen.name == "overlap":
            self._overlap = chosen.value
            self._rollouts.clear()
            self._updates.clear()

    def on_rollout(self, rollout: records.RolloutDone) -> None:
        """Note the speed."""
        self._rollouts.append(rollout)

    def on_update(self, update: records.UpdateDone) -> None:
        """Note the idle shares; stop the run when its time is over."""
        self._updates.append(update)
        if len(self._rollouts) > WARM_UP and time.monotonic() >= self._ends_s:
            raise StopTraining

    def measurement(self, n_envs: int) -> TrainMeasurement:
        """Medians after the warm-up."""
        warm = self._updates[WARM_UP:]
        return TrainMeasurement(
            n_envs,
            self._workers,
            self._overlap,
            statistics.median(rollout.steps_per_s for rollout in self._rollouts[WARM_UP:]),
            statistics.median(update.idle_collect for update in warm),
            statistics.median(update.idle_learn for update in warm),
        )


def best_of(measured: Sequence[TrainMeasurement]) -> TrainMeasurement:
    """The measurement with the fewest environments among those that are about as fast as the fastest."""
    best = fewest_as_good({m.n_envs: m.steps_per_s for m in measured})
    return next(m for m in measured if m.n_envs == best)


def report(runner: TrainBenchRunner) -> int:
    """Print the table and the command to paste."""
    from rich.console import Console
    from rich.table import Table

    best = best_of(runner.measured)
    table = Table(title=f"training on {runner.config.env}")
    for heading in ("n_envs", "workers", "overlap", "steps/s", "collector idle", "learner idle"):
        table.add_column(heading, justify="right")
    for m in runner.measured:
        shares = (f"{m.idle_collect:.0%}", f"{m.idle_learn:.0%}")
        row = (str(m.n_envs), str(m.workers), m.overlap, f"{m.steps_per_s:,.0f}", *shares)
        table.add_row(*row, style="bold green" if m is best else "")
    for n_envs in runner.skipped:
        table.add_row(str(n_envs), "", "", "no time", style="dim")
    Console(highlight=False).print(table)
    print(f"ninelives train {runner.config.env} --n-envs {best.n_envs} --overlap {best.overlap}")
    return 0
