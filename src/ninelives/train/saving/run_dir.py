"""The directory of one training run: what lies where, who may write, and that nothing is overwritten unasked.

::

    runs/CartPole-v1-20260131-142501/
      config.yaml            the resolved configuration: `ninelives train --config` of it repeats the run
      run.json               versions, commit, machine, command line of every start
      checkpoints/           everything that is needed to go on
      monitor/0.monitor.csv  one file a slot, as SB3 writes them
      progress.csv           one row an update: steps, speed, return, losses
      tensorboard/           the same as curves
      pool/                  events and logs of the workers, for `ninelives doctor`
      marks.json             how long the logs were at each checkpoint: a resumed run cuts them back to there
      lock                   held while a trainer is at work here

Must never delete what it has not written itself.
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
from ninelives.train.config.layers import as_tree, dump

OWN = (
    "config.yaml",
    "run.json",
    "checkpoints",
    "monitor",
    "progress.csv",
    "tensorboard",
    "pool",
    "marks.json",
    "curve.png",
)
"""Everything of a run; what ``--force`` may delete."""

LOCK = "lock"

THIS_START_ONLY: Mapping[str, Any] = {"run_dir": None, "resume": False, "resume_previous": False, "force": False}
"""Settings that are not repeated when the run is."""


class RunDir:
    """A run's directory, held for this process until it is closed. Make it with ``open``."""

    def __init__(self, path: Path, lock_fd: int) -> None:
        self.path = path
        self._lock_fd: int | None = lock_fd

    @classmethod
    def open(cls, path: str | Path, *, resume: bool = False, force: bool = False) -> RunDir:
        """Make the directory, or go on in it (``resume``), or begin anew in it (``force``).

        Raises:
            ConfigError: it holds a run and neither was said, there is nothing to resume, or a trainer is at work there.
        """
        path = Path(path)
        if resume and force:
            raise ConfigError("--resume goes on and --force begins anew: say one of them")
        if resume and not was_begun(path):
            raise ConfigError(f"--resume: {path} holds no run; leave --resume away to begin one there")
        if not resume:
            _check_room(path, force)
        path.mkdir(parents=True, exist_ok=True)
        run = cls(path, _lock(path))
        if force or (not resume and never_came_up(path)):
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
        """The table of updates."""
        return self.path / "progress.csv"

    @property
    def tensorboard(self) -> Path:
        """The directory of TensorBoard's files."""
        return self.path / "tensorboard"

    @property
    def pool(self) -> Path:
        """The pool's own directory."""
        return self.path / "pool"

    def write_config(self, config: Any) -> None:
        """Keep the resolved configuration, without what was true of this start only."""
        tree = as_tree(config)
        replace_text(self.config, dump({key: THIS_START_ONLY.get(key, value) for key, value in tree.items()}))

    def write_facts(self, facts: Mapping[str, Any]) -> None:
        """Keep what is known about this start; earlier starts of the run stay."""
        path = self.path / "run.json"
        starts = starts_of(self.path)
        replace_text(path, json.dumps({"starts": [*starts, dict(facts)]}, indent=2, default=str) + "\n")

    def close(self) -> None:
        """Let another trainer in."""
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
    """Whether there is a run that could be lost."""
    return (path / "config.yaml").is_file() or (path / "checkpoints").is_dir()


def never_came_up(path: Path) -> bool:
    """Whether there is a run whose environments never started: nothing of it could be lost."""
    made_later = ("checkpoints", "monitor", "progress.csv", "tensorboard")
    return (path / "config.yaml").is_file() and not any((path / name).exists() for name in made_later)


def was_begun(path: Path) -> bool:
    """Whether a trainer came as far as the lock: one killed right then has lost nothing and may be resumed."""
    return holds_run(path) or (path / LOCK).is_file()


def starts_of(path: Path) -> list[dict[str, Any]]:
    """What ``run.json`` tells about every start of a run, oldest first; empty if there is none."""
    try:
        starts = json.loads((path / "run.json").read_text())["starts"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [start for start in starts if isinstance(start, dict)]


def replace_text(path: Path, text: str) -> None:
    """Write a whole file or nothing of it."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text)
    os.replace(temporary, path)


def _check_room(path: Path, force: bool) -> None:
    if path.exists() and not path.is_dir():
        raise ConfigError(f"--run-dir {path} is a file; name a directory")
    if holds_run(path) and not force and not never_came_up(path):
        raise ConfigError(
            f"--run-dir {path} holds a run already; --resume goes on with it, --force deletes it and begins anew, or "
            "name another directory"
        )
    foreign = sorted(entry.name for entry in path.glob("*") if entry.name not in (LOCK, ".config.yaml.tmp"))
    if foreign and not holds_run(path):
        raise ConfigError(f"--run-dir {path} holds no run but other files ({', '.join(foreign[:3])}); name a new one")


def _lock(path: Path) -> int:
    fd = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(fd, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(fd)
        raise ConfigError(
            f"--run-dir {path}: another trainer (pid {holder}) is at work there; wait for it, or name another directory"
        ) from None
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd
