"""The directory of one training run: its layout, its lock, and that nothing is overwritten without being asked.

::

    runs/CartPole-v1-20260131-142501/
      config.yaml            the resolved configuration: `ninelives train --config` of it repeats the run
      run.json               versions, commit, machine, command line of each start
      checkpoints/           everything that is needed to resume
      monitor/0.monitor.csv  one file per slot, as SB3 writes them
      progress.csv           one row per update: steps, speed, return, losses
      tensorboard/           the same as TensorBoard scalars
      pool/                  events and logs of the workers, for `ninelives doctor`
      log_offsets.json       sizes of the logs at each checkpoint: a resumed run truncates them to these
      lock                   held while a trainer is running here

Must never delete a file that it did not write itself.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from ninelives.errors import ConfigError
from ninelives.train.config.classes import TrainConfig
from ninelives.train.config.layers import as_tree, dump, from_file

OWN = (
    "config.yaml",
    "run.json",
    "checkpoints",
    "monitor",
    "progress.csv",
    "tensorboard",
    "pool",
    "log_offsets.json",
    "curve.png",
)
"""All files of a run: what ``--force`` may delete."""

LOCK = "lock"

THIS_START_ONLY: Mapping[str, Any] = {"run_dir": None, "resume": False, "resume_previous": False, "force": False}
"""Settings that are not saved, because they concern one start of the run only."""


class RunDir:
    """A run's directory, locked for this process until it is closed. Create it with ``open``."""

    def __init__(self, path: Path, lock_fd: int) -> None:
        self.path = path
        self._lock_fd: int | None = lock_fd

    @classmethod
    def open(cls, path: str | Path, *, resume: bool = False, force: bool = False) -> RunDir:
        """Create the directory, or continue in it (``resume``), or replace the run in it (``force``).

        Raises:
            ConfigError: it holds a run and neither is set, there is nothing to resume, or a trainer is running there.
        """
        path = Path(path)
        if resume and force:
            raise ConfigError(
                "--resume and --force exclude each other: --resume continues the run, --force replaces it"
            )
        if resume and not was_begun(path):
            raise ConfigError(f"--resume: {path} holds no run; leave out --resume to start one there")
        if not resume:
            _check_free(path, force)
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"--run-dir {path} cannot be made: {error.strerror}; name another directory") from error
        run = cls(path, _lock(path))
        if force or (not resume and never_started(path)):
            run._clear()
        return run

    @property
    def config(self) -> Path:
        """The resolved configuration."""
        return self.path / "config.yaml"

    @property
    def checkpoints(self) -> Path:
        """The directory of checkpoints."""
        return self.path / "checkpoints"

    @property
    def monitor(self) -> Path:
        """The directory of monitor files."""
        return self.path / "monitor"

    @property
    def progress(self) -> Path:
        """The table with one row per update."""
        return self.path / "progress.csv"

    @property
    def tensorboard(self) -> Path:
        """The directory of the TensorBoard files."""
        return self.path / "tensorboard"

    @property
    def pool(self) -> Path:
        """The pool's own directory."""
        return self.path / "pool"

    def write_config(self, config: Any) -> None:
        """Save the resolved configuration, without the settings of this start only."""
        tree = as_tree(config)
        replace_text(self.config, dump({key: THIS_START_ONLY.get(key, value) for key, value in tree.items()}))

    def saved_n_envs(self) -> int | None:
        """The number of environments of the run in this directory; None if it is not known."""
        try:
            saved = {setting.name: setting.value for setting in from_file(TrainConfig, self.config)}
        except ConfigError:
            return None
        n_envs = saved.get("n_envs")
        return n_envs if isinstance(n_envs, int) else None

    def write_provenance(self, facts: Mapping[str, Any]) -> None:
        """Add what is known about this start to ``run.json``; earlier starts of the run stay there."""
        path = self.path / "run.json"
        starts = starts_of(self.path)
        replace_text(path, json.dumps({"starts": [*starts, dict(facts)]}, indent=2, default=str) + "\n")

    def close(self) -> None:
        """Release the lock."""
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    def __enter__(self) -> RunDir:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _clear(self) -> None:
        for name in OWN:
            target = self.path / name
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            else:
                target.unlink(missing_ok=True)


def holds_run(path: Path) -> bool:
    """Whether the directory holds a run."""
    return (path / "config.yaml").is_file() or (path / "checkpoints").is_dir()


def never_started(path: Path) -> bool:
    """Whether the directory holds a run whose environments never started, so that nothing of it can be lost."""
    later_files = ("checkpoints", "monitor", "progress.csv", "tensorboard")
    return (path / "config.yaml").is_file() and not any((path / name).exists() for name in later_files)


def was_begun(path: Path) -> bool:
    """Whether a trainer got as far as the lock: a run that was killed right after it can be resumed from the start."""
    return holds_run(path) or (path / LOCK).is_file()


def starts_of(path: Path) -> list[dict[str, Any]]:
    """What ``run.json`` holds about each start of a run, oldest first; empty if there is none."""
    try:
        starts = json.loads((path / "run.json").read_text())["starts"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [start for start in starts if isinstance(start, dict)]


def replace_text(path: Path, text: str) -> None:
    """Write a file completely or not at all."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text)
    os.replace(temporary, path)


def _check_free(path: Path, force: bool) -> None:
    if path.exists() and not path.is_dir():
        raise ConfigError(f"--run-dir {path} is a file; name a directory")
    if holds_run(path) and not force and not never_started(path):
        raise ConfigError(
            f"--run-dir {path} already holds a run: use --resume to continue it, --force to delete and replace it, or "
            "another directory"
        )
    foreign = sorted(entry.name for entry in path.glob("*") if entry.name not in (LOCK, ".config.yaml.tmp"))
    if foreign and not holds_run(path):
        raise ConfigError(
            f"--run-dir {path} holds other files ({', '.join(foreign[:3])}) but no run; name a new directory"
        )


def _lock(path: Path) -> int:
    fd = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(fd, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(fd)
        raise ConfigError(
            f"--run-dir {path}: another trainer (pid {holder}) is running there; wait for it, or name another directory"
        ) from None
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd
