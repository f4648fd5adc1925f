"""The rig: everything of a pool that must be taken down again, and how that is done.

Made in one piece by ``start.begin``; taken down by ``close()``, by a failed start, or when the pool is collected.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from ninelives import events
from ninelives.errors import ConfigError
from ninelives.pool.eventlog import EVENTS_FILE, EventLog, has_run
from ninelives.pool.workers.supervisor import Crew
from ninelives.spec.options import PoolOptions
from ninelives.supervise.children import Children
from ninelives.transport.shared_memory import Wiring


@dataclass
class Rig:
    """Processes, memory, directories and log of one pool."""

    options: PoolOptions
    run_dir: Path
    wiring: Wiring
    log: EventLog
    children: Children
    crew: Crew
    owner_pid: int = field(default_factory=os.getpid)

    def take_down(self, steps: int) -> None:
        """End workers politely, then firmly, then the keeper; remove what must not stay. Bounded in every branch.

        A second Ctrl-C while waiting skips the polite part. A process forked by the user's program inherits this object
        and runs its exit handlers, but the workers are not its own.
        """
        if os.getpid() != self.owner_pid:
            return
        began, limit = time.monotonic(), self.options.close_timeout_s
        with contextlib.ExitStack() as last:  # whatever fails above it, every line below runs, in this order upwards
            last.callback(self._remove)
            last.callback(self.wiring.close)
            last.callback(self.log.close)
            last.callback(self.children.close, limit / 4)
            killed = self._end_workers(limit)
            faults, seconds = self.crew.ledger.faults, time.monotonic() - began
            self.log.emit(events.PoolClosed(seconds=seconds, killed=killed, steps=steps, faults=faults))

    def _end_workers(self, limit: float) -> int:
        """Ask, then kill; returns how many had to be killed."""
        try:
            self.crew.farewell.stop_all()
            self.crew.farewell.await_exits(limit / 2)
        except KeyboardInterrupt:
            pass
        killed = len(self.crew.farewell.living())
        self.crew.farewell.kill_all()
        self.crew.farewell.await_exits(limit / 4)
        return killed

    def _remove(self) -> None:
        kept = self.options.run_dir is not None
        shutil.rmtree(self.run_dir / "scratch" if kept else self.run_dir, ignore_errors=True)

    def open_run_dir(self) -> None:
        """Make directories. A temporary one is made by the keeper, which removes it however the parent ends."""
        if self.options.run_dir is None:
            self.children.tidy(str(self.run_dir))
            return
        self.run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in (self.run_dir / EVENTS_FILE, *self.run_dir.glob("worker-*.log")):
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
