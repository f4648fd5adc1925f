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
        self.run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in (*event_files(self.run_dir), *self.run_dir.glob("worker-*.log")):
            path.unlink(missing_ok=True)  # only what a pool itself wrote; anything else there is the user's
        self.log.keep_in(self.run_dir)
        self.children.tidy(str(self.run_dir / "scratch"))


def choose_run_dir(options: PoolOptions) -> Path:
    """The user's directory, refused if it already holds a run; else a private temporary one."""
    if options.run_dir is None:
        return Path(tempfile.gettempdir()) / f"ninelives-{os.getpid()}-{secrets.token_hex(4)}"
    run_dir = Path(options.run_dir).absolute()
    if has_run(run_dir) and not options.overwrite:
        raise ConfigError(
            f"run_dir={str(options.run_dir)!r} already holds a run; choose another directory, or pass overwrite=True "
            "to replace its events and logs"
        )
    return run_dir
