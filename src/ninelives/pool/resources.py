"""What a pool holds while it is up: shared memory, processes, a directory, an event log.

Made in one piece by ``startup``, handed as one object to every part that deals with processes, and given back by
``shutdown``. Starts and stops nothing by itself.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from ninelives import host
from ninelives.clock import Clock
from ninelives.errors import ConfigError
from ninelives.pool.eventlog import EventLog, event_files, has_run
from ninelives.spec.options import PoolOptions
from ninelives.supervise.children import Children
from ninelives.supervise.lockfile import LockFile
from ninelives.transport.shared_memory import SharedMemory


@dataclass
class Resources:
    """Everything of one pool that must be given back, with the settings and the clock it runs by."""

    options: PoolOptions
    clock: Clock
    run_dir: Path
    memory: SharedMemory
    children: Children
    log: EventLog
    start_lock: LockFile | None = None
    owner_pid: int = field(default_factory=os.getpid)

    def log_of(self, line: int) -> Path:
        """Where the output of the process on this line goes."""
        return self.run_dir / f"worker-{line}.log"

    def open_run_dir(self) -> None:
        """Make directories. A temporary one is made by the keeper, which removes it however the parent ends."""
        if self.options.run_dir is None:
            self.children.tidy(str(self.run_dir))
            return
        _make_private(self.run_dir)
        for path in (*event_files(self.run_dir), *self.run_dir.glob("worker-*.log")):
            path.unlink(missing_ok=True)  # only what a pool itself wrote; anything else there is the user's
        self.log.keep_in(self.run_dir)
        self.children.tidy(str(self.run_dir / "scratch"))


def choose_run_dir(options: PoolOptions) -> Path:
    """The user's directory, refused if it already holds a run; else a private temporary one."""
    if options.run_dir is None:
        return _temp_dir() / f"ninelives-{os.getpid()}-{secrets.token_hex(4)}"
    run_dir = Path(host.current_directory(), options.run_dir)
    host.check_room(str(run_dir))
    if has_run(run_dir) and not options.overwrite:
        raise ConfigError(
            f"run_dir={str(options.run_dir)!r} already holds a run; choose another directory, or pass overwrite=True "
            "to replace its events and logs"
        )
    return run_dir


def _temp_dir() -> Path:
    try:
        place = tempfile.gettempdir()
    except FileNotFoundError as error:  # it tried to write to each of them
        raise ConfigError(f"{error.strerror}: free some space, or set TMPDIR or run_dir to another directory") from None
    host.check_room(place)
    return Path(place)


def _make_private(run_dir: Path) -> None:
    try:
        run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"run_dir={str(run_dir)!r} cannot be made: {error.strerror}; name another one") from error
