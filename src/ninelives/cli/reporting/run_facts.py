"""What a run directory contains, read without torch and without the environment. Writes nothing."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from ninelives.errors import CheckpointError, ConfigError
from ninelives.train.config import yaml_text
from ninelives.train.saving.checkpoint import Checkpoints, weights_sha256
from ninelives.train.saving.run_dir import LOCK, holds_run, never_started, starts_of
from ninelives.view.table import TableError, read_table


@dataclass(frozen=True)
class RunFacts:
    """One run.

    Attributes:
        path: its directory.
        config: the resolved settings, as the plain tree of ``config.yaml``.
        starts: versions, commit and command line of every start, oldest first.
        rows: rows of ``progress.csv``, oldest first.
        newest: the newest checkpoint.
        best: the best checkpoint.
        weights: hash of the newest checkpoint's weights, or why there is none.
        is_running: whether a trainer is running there now.
    """

    path: Path
    config: Mapping[str, Any] = field(default_factory=dict)
    starts: tuple[Mapping[str, Any], ...] = ()
    rows: tuple[Mapping[str, float], ...] = ()
    newest: Path | None = None
    best: Path | None = None
    weights: str = "none: there is no checkpoint yet"
    is_running: bool = False

    @property
    def step(self) -> int:
        """Steps done, according to the logs or the checkpoints."""
        return max(int(self._last("step") or 0), step_of(self.newest))

    @property
    def mean_return(self) -> float | None:
        """Mean return of the latest episodes."""
        return self._last("ep_rew_mean")

    @property
    def best_mean(self) -> float | None:
        """The best mean return of the run."""
        return max((value for _, value in self.curve), default=None)

    @property
    def steps_per_s(self) -> float | None:
        """Average speed since the latest start, whose clock began at zero."""
        timed = [row for row in self.rows if "seconds" in row and "step" in row]
        if not timed or not timed[-1]["seconds"]:
            return None
        resets = [before["step"] for before, after in pairwise(timed) if after["seconds"] < before["seconds"]]
        return (timed[-1]["step"] - (resets[-1] if resets else 0.0)) / timed[-1]["seconds"]

    @property
    def curve(self) -> list[tuple[float, float]]:
        """Mean return over steps."""
        return [(row["step"], row["ep_rew_mean"]) for row in self.rows if "ep_rew_mean" in row and "step" in row]

    @property
    def faults(self) -> int:
        """Faults since the latest start."""
        return int(self._last("faults") or 0)

    def _last(self, name: str) -> float | None:
        return next((row[name] for row in reversed(self.rows) if name in row), None)


def read_run(path: Path) -> RunFacts:
    """Everything about one run.

    Raises:
        ConfigError: its ``progress.csv`` is not a table.
    """
    checkpoints = Checkpoints(path / "checkpoints")
    newest = checkpoints.newest()
    facts = RunFacts(
        path=path,
        config=_config(path),
        starts=tuple(starts_of(path)),
        rows=_rows(path / "progress.csv"),
        newest=newest,
        best=checkpoints.best(),
        is_running=_is_locked(path),
    )
    return facts if newest is None else _with_weights(facts, newest)


def _rows(path: Path) -> tuple[dict[str, float], ...]:
    try:
        return tuple(read_table(path))
    except TableError as error:
        raise ConfigError(str(error)) from error


def runs_in(directory: Path) -> Iterator[Path]:
    """The runs in a directory, sorted by name, or the directory itself if it is a run; failed starts are no runs."""
    if holds_run(directory):
        yield directory
    elif directory.is_dir():
        yield from (path for path in sorted(directory.iterdir()) if path.is_dir() and _is_run(path))


def _is_run(path: Path) -> bool:
    return holds_run(path) and (not never_started(path) or _is_locked(path))


def step_of(checkpoint: Path | None) -> int:
    """The step in a checkpoint's name; 0 without one."""
    digits = "" if checkpoint is None else "".join(filter(str.isdigit, checkpoint.stem))
    return int(digits or 0)


def _with_weights(facts: RunFacts, newest: Path) -> RunFacts:
    try:
        return replace(facts, weights=weights_sha256(newest))
    except CheckpointError as error:
        return replace(facts, weights=f"none: {str(error).splitlines()[0]}")


def _config(path: Path) -> Mapping[str, Any]:
    try:
        node = yaml_text.compose(path / "config.yaml")
        tree = None if node is None else yaml_text.plain(node, str(path))
    except ConfigError:
        return {}
    return tree if isinstance(tree, dict) else {}


def _is_locked(path: Path) -> bool:
    try:
        fd = os.open(path / LOCK, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
