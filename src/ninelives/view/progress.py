"""A live picture of a training run on the terminal; plain lines, not too many, where there is no terminal.

Told plain numbers by whoever trains, and events of the pool. Starts no thread: it draws when it is told something, a
few times a second at most. Several threads may tell it; one at a time draws.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, TextIO

from ninelives.events import Event
from ninelives.view.console import news_of
from ninelives.view.live_output import Canvas, Log, can_redraw
from ninelives.view.train_model import TrainBoard, news_of_training
from ninelives.view.train_panel import LATEST, picture, status_line

TELL_EVERY_S = 5.0
"""A log that says how it goes more often than this is not read."""


class ProgressView:
    """Shows a run. ``live=None`` draws on a terminal and writes lines elsewhere."""

    def __init__(
        self, stream: TextIO | None = None, live: bool | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.board = TrainBoard()
        self._stream, self._clock, self._lock = stream or sys.stdout, clock, threading.Lock()
        self._face: _Picture | _Lines = (_Picture if can_redraw(self._stream, live) else _Lines)(self._stream)

    @property
    def is_live(self) -> bool:
        """Whether it draws on a terminal."""
        return isinstance(self._face, _Picture)

    def emit(self, event: Event) -> None:
        """Take one event of the pool."""
        with self._lock:
            news = news_of(event, self.board.pool) or news_of_training(event)
            self.board.note(event)
            self._face.show(self.board, self._clock(), news)

    def say(self, line: str) -> None:
        """A sentence that is always told."""
        with self._lock:
            self._face.say(line)

    def begin(self, name: str, step: int, total: int, seconds: float | None = None) -> None:
        """The run is up, at ``step`` of ``total``; or it ends after ``seconds``, whatever its steps."""
        with self._lock:
            self.board.begin(self._clock(), name, step, total, seconds)

    def episode(self, total: float) -> None:
        """An episode ended."""
        self.board.episode(total)

    def rollout(self, step: int, mean_return: float | None, valid_share: float) -> None:
        """A rollout was collected."""
        with self._lock:
            now = self._clock()
            self.board.rollout(now, step, mean_return, valid_share)
            self._face.show(self.board, now, "")

    def update(self, version: int, losses: Mapping[str, float], idle: Mapping[str, float]) -> None:
        """The network learned."""
        with self._lock:
            self.board.update(version, losses, idle)
            self._face.show(self.board, self._clock(), "")

    def pictures(self, mosaic: Any) -> None:
        """Something that rich can draw, shown above the numbers until the next one; left out where nothing is drawn."""
        with self._lock:
            self._face.mosaic = mosaic
            self._face.show(self.board, self._clock(), "")

    def close(self) -> None:
        """Show the last state and give the terminal back."""
        with self._lock:
            self._face.close(self.board, self._clock())

    def __enter__(self) -> ProgressView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class _Lines:
    """Plain text: the state now and then, news at once but not in floods."""

    def __init__(self, stream: TextIO) -> None:
        self.mosaic: Any = None
        self._log = Log(stream)
        self._told_s: float | None = None
        self._told_step = -1

    def show(self, board: TrainBoard, now: float, news: str) -> None:
        self._told_s = now if self._told_s is None else self._told_s
        if news:
            self._log.news(news, now)
        elif board.step > max(board.begun_at, self._told_step) and now - self._told_s >= TELL_EVERY_S:
            self._told_s = now
            self._tell_state(board)

    def say(self, line: str) -> None:
        self._log.say(line)

    def close(self, board: TrainBoard, now: float) -> None:
        if board.step > board.begun_at and board.step != self._told_step:
            self._tell_state(board)
        else:
            self._log.tell_untold()

    def _tell_state(self, board: TrainBoard) -> None:
        self._log.tell_untold()
        self._told_step = board.step
        self._log.say(status_line(board))


class _Picture:
    """A panel that is redrawn in place, below a mosaic if there is one."""

    def __init__(self, stream: TextIO) -> None:
        self.mosaic: Any = None
        self._canvas = Canvas(stream)
        self._news: list[str] = []

    def show(self, board: TrainBoard, now: float, news: str) -> None:
        if news:
            self.say(news)
        self._canvas.draw(lambda: self._whole(board, now), now)

    def say(self, line: str) -> None:
        self._news = [*self._news, line][-LATEST:]

    def close(self, board: TrainBoard, now: float) -> None:
        self._canvas.close(lambda: self._whole(board, now))

    def _whole(self, board: TrainBoard, now: float) -> Any:
        from rich.console import Group

        panel = picture(board, now, self._news)
        return panel if self.mosaic is None else Group(self.mosaic, panel)
