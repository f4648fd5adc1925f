"""A machine-wide lock for simulators of which only one may start at a time.

The parent holds it for the worker that constructs its environments, so the death of that worker releases it. So does
the death of the parent: the kernel drops the lock with the descriptor.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from ninelives.errors import ConfigError


class LockFile:
    """An advisory lock on a file; never blocks."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._fd: int | None = None
        if not self._path.parent.is_dir():
            raise ConfigError(f"start_lock={str(path)!r}: its directory does not exist")

    def take(self) -> bool:
        """Try to hold the lock; True if it is held now."""
        if self._fd is not None:
            return True
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise ConfigError(f"start_lock={str(self._path)!r} cannot be opened: {error}") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        self._fd = fd
        return True

    def release(self) -> None:
        """Give the lock back, if it is held."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
