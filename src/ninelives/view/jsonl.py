"""Writes every event as a line of JSON to a file, within a bound of bytes, whatever the disk does.

::

    events.jsonl.1   the file before, replaced at each rotation
    events.jsonl     the newest events; the line of ``PoolStarted`` is repeated at its beginning

Each line is whole or absent. A disk that is full costs one message and the lines that did not fit, never the run.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from ninelives.events import Event, PoolStarted

LARGEST_BYTES = 32 << 20
"""Size at which the file is rotated; there are two, so a run keeps at most twice this."""


class JsonlSink:
    """Appends to a file that only its owner can read.

    Args:
        path: the file; the one before it has the same name with ``.1``.
        largest: bytes at which it is rotated.
    """

    def __init__(self, path: Path, largest: int = LARGEST_BYTES) -> None:
        self._path, self._largest = path, largest
        self._fd = self._open()
        self._size, self._head, self._has_warned = os.fstat(self._fd).st_size, b"", False

    def emit(self, event: Event) -> None:
        """Write one line; if that is not possible, say so once."""
        line = event.to_json().encode() + b"\n"
        if isinstance(event, PoolStarted):
            self._head = line
        try:
            if self._size > len(self._head) and self._size + len(line) > self._largest:
                self._rotate()
            self._write(line)
        except OSError as error:
            self._warn(error)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def _rotate(self) -> None:
        before = rotated(self._path)
        os.replace(self._path, before)
        try:
            fd = self._open()
        except OSError:
            os.replace(before, self._path)
            raise
        os.close(self._fd)
        self._fd, self._size = fd, 0
        self._write(self._head)

    def _write(self, line: bytes) -> None:
        """A full disk accepts a part of the line: it is removed again."""
        try:
            written = os.write(self._fd, line)
            if written < len(line):
                written += os.write(self._fd, line[written:])  # raises what stopped the first one
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._size)
            raise
        self._size += written

    def _warn(self, error: OSError) -> None:
        if not self._has_warned:
            self._has_warned = True
            print(
                f"ninelives: an event cannot be written to {self._path}: {error.strerror or error}. The run goes on; "
                "events are missing there until there is room again; this is said only once",
                file=sys.stderr,
                flush=True,
            )


def rotated(path: Path) -> Path:
    """Where the lines before those of ``path`` are, if it was rotated."""
    return path.with_name(f"{path.name}.1")
