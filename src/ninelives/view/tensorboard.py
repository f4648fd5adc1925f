"""Writes scalars for TensorBoard. Needs the extra ``tensorboard``, but not torch."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Mapping
from pathlib import Path

FLUSH_S = 10
"""Seconds a value may wait before it is written to the file."""


def is_installed() -> bool:
    """Whether TensorBoard files can be written."""
    return importlib.util.find_spec("tensorboard") is not None


class TensorBoardFile:
    """Writes one event file. With ``resumed_at``, TensorBoard discards what an earlier file has for later steps."""

    def __init__(self, directory: Path, resumed_at: int | None = None) -> None:
        from tensorboard.compat.proto.event_pb2 import SessionLog  # type: ignore[import-untyped, import-not-found, unused-ignore]
        from tensorboard.summary.writer.event_file_writer import EventFileWriter  # type: ignore[import-untyped, import-not-found, unused-ignore]

        directory.mkdir(parents=True, exist_ok=True)
        self._writer = EventFileWriter(str(directory), flush_secs=FLUSH_S)
        if resumed_at is not None:
            self._add(resumed_at + 1, session_log=SessionLog(status=SessionLog.START))

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Write values by name, all of the same step."""
        from tensorboard.compat.proto.summary_pb2 import Summary  # type: ignore[import-untyped, import-not-found, unused-ignore]

        entries = [Summary.Value(tag=name, simple_value=float(value)) for name, value in values.items()]
        self._add(step, summary=Summary(value=entries))

    def flush(self) -> None:
        """Write buffered values to disk."""
        self._writer.flush()

    def close(self) -> None:
        """Flush and close the file."""
        self._writer.close()

    def _add(self, step: int, **what: object) -> None:
        from tensorboard.compat.proto.event_pb2 import Event  # type: ignore[import-untyped, import-not-found, unused-ignore]

        self._writer.add_event(Event(wall_time=time.time(), step=step, **what))
