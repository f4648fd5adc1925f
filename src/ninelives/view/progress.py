"""A live view of a training run on the terminal; where there is no terminal, plain lines, not too many.

Receives plain numbers from the trainer and the pool's events. Starts no thread: it draws when it receives something, a
few times a second at most. Several threads may call it; one at a time draws.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, TextIO

from ninelives.events import Event
from ninelives.view.live_output import LineOutput, PanelOutput, Status, can_redraw
from ninelives.view.pool_panel import event_line
from ninelives.view.train_model import TrainModel
from ninelives.view.train_panel import LATEST, heal_line, panel, status_line

STATUS_EVERY_S = 5.0
"""Status lines that come more often than this are not read."""

STDERR = 2
"""File descriptor; on a terminal a ``\\r`` writes over the ``^C``, or over the lower edge of the panel."""


class ProgressView:
    """Shows a run. ``live=None`` draws on a terminal and prints lines elsewhere."""

    def __init__(
        self, stream: TextIO | None = None, live: bool | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.model = TrainModel()
        self._clock, self._lock = clock, threading.Lock()
        stream = stream or sys.stdout
        self.is_live = can_redraw(stream, live)
        self._output = PanelOutput(stream, LATEST) if self.is_live else LineOutput(stream, STATUS_EVERY_S)
        self._mosaic: Any = None
        self._reported_step = -1

    def emit(self, event: Event) -> None:
        """Receive one event of the pool."""
        with self._lock:
            line = event_line(event, self.model.pool) or heal_line(event)
            self.model.note(event)
            self._show(line)

    def say(self, line: str) -> None:
        """Show a sentence that must not be left out."""
        with self._lock:
            self._output.say(line)

    def announce(self, line: str) -> None:
        """Show a sentence now and until the end. For signal handlers: takes no lock and uses no buffered stream."""
        self.model.notice = line
        start, end = "\r" if os.isatty(STDERR) else "", "" if self.is_live else "\n"
        with suppress(OSError):
            os.write(STDERR, f"{start}ninelives: {line}{end}".encode())

    def begin(self, name: str, step: int, total: int, seconds: float | None = None) -> None:
        """The run starts, at ``step`` of ``total``; with ``seconds``, it ends by time instead of steps."""
        with self._lock:
            self.model.begin(self._clock(), name, step, total, seconds)

    def episode(self, total: float) -> None:
        """An episode ended with this return."""
        self.model.episode(total)

    def rollout(self, step: int, mean_return: float | None, valid_share: float) -> None:
        """A rollout was collected."""
        with self._lock:
            self.model.rollout(self._clock(), step, mean_return, valid_share)
            self._show("")

    def update(self, version: int, losses: Mapping[str, float], idle: Mapping[str, float]) -> None:
        """The policy was updated."""
        with self._lock:
            self.model.update(version, losses, idle)
            self._show("")

    def pictures(self, mosaic: Any) -> None:
        """A rich renderable to show above the numbers until the next one; ignored where nothing is drawn."""
        with self._lock:
            self._mosaic = mosaic
            self._show("")

    def close(self) -> None:
        """Show the last state and release the terminal."""
        with self._lock:
            now = self._clock()
            self._output.close(self._status(), lambda lines: self._drawing(now, lines))

    def __enter__(self) -> ProgressView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _show(self, line: str) -> None:
        now = self._clock()
        self._output.show(now, line, self._status(), lambda lines: self._drawing(now, lines))

    def _status(self) -> Status:
        """No status before the first step of this process, nor twice for the same step."""
        return self._report if self.model.step > max(self.model.begun_at, self._reported_step) else None

    def _report(self) -> str:
        self._reported_step = self.model.step
        return status_line(self.model)

    def _drawing(self, now: float, event_lines: Sequence[str]) -> Any:
        from rich.console import Group

        below = panel(self.model, now, event_lines)
        return below if self._mosaic is None else Group(self._mosaic, below)
