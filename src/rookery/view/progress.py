"""A live picture of a training run on the terminal; plain lines, not too many, where there is no terminal.

Told plain numbers by whoever trains, and events of the pool. Starts no thread: it draws when it is told something, a
few times a second at most. Several threads may tell it; one at a time draws.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, TextIO

from rookery.events import Event
from rookery.view.console import news_of
from rookery.view.panel import LATEST, picture, status_line
from rookery.view.trainboard import TrainBoard, news_of_training
from rookery.view.words import plural

DRAW_EVERY_S = 0.125
"""A terminal redrawn more often than eight times a second only flickers."""

TELL_EVERY_S = 5.0
"""A log that says how it goes more often than this is not read."""

NEWS_A_SECOND = 5
"""Lines about events within one second; more are counted and told as a number."""


class ProgressView:
    """Shows a run. ``live=None`` draws on a terminal and writes lines elsewhere."""

    def __init__(
        self, stream: TextIO | None = None, live: bool | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.board = TrainBoard()
        self._stream, self._clock, self._lock = stream or sys.stdout, clock, threading.Lock()
        wanted = _can_redraw(self._stream) if live is None else live
        can_draw = importlib.util.find_spec("rich") is not None
        self._face: _Picture | _Lines = _Picture(self._stream) if wanted and can_draw else _Lines(self._stream)

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


def _can_redraw(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")


class _Lines:
    """Plain text: the state now and then, news at once but not in floods."""

    def __init__(self, stream: TextIO) -> None:
        self.mosaic: Any = None
        self._stream = stream
        self._told_s: float | None = None
        self._told_step = -1
        self._second, self._in_second, self._untold = 0, 0, 0

    def show(self, board: TrainBoard, now: float, news: str) -> None:
        self._told_s = now if self._told_s is None else self._told_s
        if news:
            self._tell_news(news, now)
        elif board.step > max(board.begun_at, self._told_step) and now - self._told_s >= TELL_EVERY_S:
            self._told_s = now
            self._tell_state(board)

    def say(self, line: str) -> None:
        self._print(line)

    def close(self, board: TrainBoard, now: float) -> None:
        if board.step > board.begun_at and board.step != self._told_step:
            self._tell_state(board)
        else:
            self._tell_untold()

    def _tell_state(self, board: TrainBoard) -> None:
        self._tell_untold()
        self._told_step = board.step
        self._print(status_line(board))

    def _tell_news(self, news: str, now: float) -> None:
        if int(now) != self._second:
            self._tell_untold()
            self._second, self._in_second = int(now), 0
        self._in_second += 1
        if self._in_second <= NEWS_A_SECOND:
            self._print(news)
        else:
            self._untold += 1

    def _tell_untold(self) -> None:
        if self._untold:
            self._print(f"... and {plural(self._untold, 'more event')}")
            self._untold = 0

    def _print(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


class _Picture:
    """A panel that is redrawn in place."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live

        self.mosaic: Any = None
        console = Console(file=stream, highlight=False, force_terminal=True)
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._news: list[str] = []
        self._drawn_s = float("-inf")

    def show(self, board: TrainBoard, now: float, news: str) -> None:
        if news:
            self.say(news)
        if now - self._drawn_s >= DRAW_EVERY_S:
            self._drawn_s = now
            self._live.start()
            self._live.update(self._whole(board, now), refresh=True)

    def say(self, line: str) -> None:
        self._news = [*self._news, line][-LATEST:]

    def close(self, board: TrainBoard, now: float) -> None:
        if self._live.is_started:
            self._live.update(self._whole(board, now))
            self._live.stop()  # draws once more

    def _whole(self, board: TrainBoard, now: float) -> Any:
        from rich.console import Group

        panel = picture(board, now, self._news)
        return panel if self.mosaic is None else Group(self.mosaic, panel)
