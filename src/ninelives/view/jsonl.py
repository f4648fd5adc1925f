"""Writes every event as a line of JSON to a file."""

from __future__ import annotations

import os
from pathlib import Path

from ninelives.events import Event


class JsonlSink:
    """Appends to a file that only its owner can read. Each line is one write, so it is complete or absent."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def emit(self, event: Event) -> None:
        """Write one line."""
        os.write(self._fd, event.to_json().encode() + b"\n")

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)
