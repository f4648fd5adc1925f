"""Writes a training run's logs to its run directory: TensorBoard, W&B, CSV tables and monitor files.

Connects the trainer, which knows no view, with the views, which know no trainer. On resume the logs continue at the
checkpoint: later rows of a killed trainer are removed, and TensorBoard discards their values.
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Protocol

from ninelives import events
from ninelives.errors import ConfigError
from ninelives.spec.env import EnvSpec
from ninelives.train import records
from ninelives.train.callbacks import Callback
from ninelives.train.config.classes import TrainConfig
from ninelives.train.config.layers import as_tree
from ninelives.train.saving.log_offsets import LogOffsets
from ninelives.view import tensorboard, wandb
from ninelives.view.monitor import SUFFIX, MonitorFiles
from ninelives.view.table import ProgressTable, TableError


class RunLog(Protocol):
    """A log that is written during a run."""

    def flush(self) -> None:
        """Write everything to disk."""

    def close(self) -> None:
        """Close the log."""


class ScalarSink(RunLog, Protocol):
    """Stores numbers by name and step."""

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Store the values of one step."""


class RunLogger(Callback):
    """Callback that writes all logs of a run with a directory. Close it, or use it as a context manager."""

    def __init__(self) -> None:
        self._sinks: list[ScalarSink] = []
        self._monitor: MonitorFiles | None = None
        self._table: ProgressTable | None = None
        self._marks: LogOffsets | None = None
        self._numbers = RunMetrics(window=100)
        self._run_dir: Path | None = None

    def on_start(self, started: records.Started) -> None:
        """Open the logs that the configuration asks for."""
        config, self._numbers = started.config, RunMetrics(started.config.log.window)
        if started.run_dir is None:
            return
        self._run_dir, self._marks = started.run_dir, LogOffsets(started.run_dir)
        if config.resume or config.resume_previous:
            self._marks.cut(started.step, self._logs())
        else:
            self._marks.note(0, ())
        self._table = _table_in(started.run_dir)
        if config.log.monitor:
            label = EnvSpec.of(config.env).label
            self._monitor = MonitorFiles(started.run_dir / "monitor", label, int(config.n_envs), time.time())
        self._sinks = list(scalar_sinks(config, started.run_dir, started.step))

    def on_episode(self, episode: records.EpisodeDone) -> None:
        """Log the episode."""
        self._numbers.episode(episode)
        if self._monitor is not None:
            self._monitor.episode(episode.slot, episode.total, episode.length, episode.seconds)

    def on_event(self, event: events.Event) -> None:
        """Count the event."""
        self._numbers.event(event)

    def on_rollout(self, rollout: records.RolloutDone) -> None:
        """Note its numbers; they are written with the update that follows."""
        self._numbers.rollout = rollout

    def on_update(self, update: records.UpdateDone) -> None:
        """Write all current numbers."""
        scalars = self._numbers.scalars(update)
        for sink in self._sinks:
            sink.scalars(update.step, scalars)
        if self._table is not None:
            self._table.row(self._numbers.row(update))

    def on_checkpoint(self, written: records.CheckpointWritten) -> None:
        """Flush the logs and note their lengths, for a resume."""
        for log in self._open_logs():
            log.flush()
        if self._marks is not None:
            self._marks.note(written.step, self._logs())

    def on_end(self, result: records.Result) -> None:
        """Close all files."""
        self.close()

    def close(self) -> None:
        """Close all files; may be called twice."""
        for log in self._open_logs():
            log.close()
        self._sinks, self._monitor, self._table = [], None, None

    def __enter__(self) -> RunLogger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _open_logs(self) -> list[RunLog]:
        return [*self._sinks, *(log for log in (self._monitor, self._table) if log is not None)]

    def _logs(self) -> list[Path]:
        """The append-only files."""
        if self._run_dir is None:
            return []
        return [self._run_dir / "progress.csv", *sorted((self._run_dir / "monitor").glob(f"*{SUFFIX}"))]


def check_extras(config: TrainConfig) -> None:
    """Check before the start that all logs can be written.

    Raises:
        ConfigError: Weights & Biases is requested but not installed.
    """
    if config.log.wandb is not None and not wandb.is_installed():
        raise ConfigError(f"log.wandb={config.log.wandb!r} needs wandb: pip install 'ninelives[wandb]'")


def scalar_sinks(config: TrainConfig, run_dir: Path, step: int) -> Iterator[ScalarSink]:
    """The sinks that the configuration asks for and that are installed."""
    check_extras(config)
    resumed_at = step if config.resume or config.resume_previous else None
    if config.log.tensorboard and tensorboard.is_installed():
        yield tensorboard.TensorBoardFile(run_dir / "tensorboard", resumed_at)
    if config.log.wandb is not None:
        yield wandb.WandbRun(config.log.wandb, run_dir, as_tree(config))


class RunMetrics:
    """The latest numbers of a run, under the names that CleanRL's and SB3's dashboards use."""

    def __init__(self, window: int) -> None:
        self.rollout: records.RolloutDone | None = None
        self._began_s = time.monotonic()
        self._lengths: deque[int] = deque(maxlen=window)
        self._by_slot: dict[int, deque[float]] = {}
        self._fresh: set[int] = set()
        self._last: records.EpisodeDone | None = None
        self._window = window
        self._faults = dict.fromkeys(("seen", "restarts", "healed", "cut", "quarantined"), 0)

    def episode(self, episode: records.EpisodeDone) -> None:
        """Note one episode."""
        self._lengths.append(episode.length)
        self._by_slot.setdefault(episode.slot, deque(maxlen=self._window)).append(episode.total)
        self._fresh.add(episode.slot)
        self._last = episode

    def event(self, event: events.Event) -> None:
        """Count faults and their outcomes."""
        kinds = {
            events.FaultSeen: ("seen", 1),
            events.RestartScheduled: ("restarts", 1),
            events.SlotHealed: ("healed", len(event.slots)),
            events.HealFailed: ("cut", len(event.slots)),
            events.SlotQuarantined: ("quarantined", len(event.slots)),
        }
        with suppress(KeyError):
            name, count = kinds[type(event)]
            self._faults[name] += count

    def scalars(self, update: records.UpdateDone) -> dict[str, float]:
        """All scalars after an update. A slot's mean return is included when it has changed."""
        values = {f"losses/{name}": value for name, value in update.losses.items() if name != "learning_rate"}
        values |= {f"faults/{name}": count for name, count in self._faults.items()}
        values |= self._charts(update) | self._times(update)
        if (mean := self._mean_return()) is not None:
            values["rollout/ep_rew_mean"] = mean
        if self._lengths:
            values["rollout/ep_len_mean"] = statistics.fmean(self._lengths)
        for slot in sorted(self._fresh):
            values[f"rollout/ep_rew_mean_env_{slot}"] = statistics.fmean(self._by_slot[slot])
        self._fresh.clear()
        if self.rollout is not None:
            values["faults/valid_share"] = self.rollout.valid_share
        return values

    def row(self, update: records.UpdateDone) -> dict[str, float | None]:
        """The main numbers, as a row of the table."""
        rollout = self.rollout
        return {
            "step": update.step,
            "seconds": time.monotonic() - self._began_s,
            "steps_per_s": None if rollout is None else rollout.steps_per_s,
            "episodes": None if rollout is None else rollout.episodes,
            "ep_rew_mean": self._mean_return(),
            "ep_len_mean": statistics.fmean(self._lengths) if self._lengths else None,
            "idle_collect": update.idle_collect,
            "idle_learn": update.idle_learn,
            "faults": self._faults["seen"],
            "healed": self._faults["healed"],
            "valid_share": None if rollout is None else rollout.valid_share,
            **update.losses,
        }

    def _mean_return(self) -> float | None:
        """From the trainer, which also knows the episodes before a resume."""
        return None if self.rollout is None else self.rollout.mean_return

    def _charts(self, update: records.UpdateDone) -> dict[str, float]:
        """Scalars under CleanRL's names."""
        values: dict[str, float] = {}
        if "learning_rate" in update.losses:
            values["charts/learning_rate"] = update.losses["learning_rate"]
        if self.rollout is not None:
            values["charts/SPS"] = self.rollout.steps_per_s
        if self._last is not None:
            values["charts/episodic_return"] = self._last.total
            values["charts/episodic_length"] = self._last.length
        return values

    def _times(self, update: records.UpdateDone) -> dict[str, float]:
        values = {
            "time/learn_s": update.seconds,
            "time/idle_collect": update.idle_collect,
            "time/idle_learn": update.idle_learn,
            "time/lag": update.lag,
            "time/time_elapsed": time.monotonic() - self._began_s,
            "time/total_timesteps": update.step,
        }
        if self.rollout is not None:
            values |= {"time/fps": self.rollout.steps_per_s, "time/collect_s": self.rollout.seconds}
        return values


def _table_in(run_dir: Path) -> ProgressTable:
    try:
        return ProgressTable(run_dir / "progress.csv")
    except TableError as error:
        raise ConfigError(str(error)) from error
