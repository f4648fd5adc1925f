"""Where a live view is shown: lines that do not flood a log, or a picture redrawn in place. Knows no content."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from typing import Any, TextIO

from ninelives.view.words import plural

DRAW_EVERY_S = 0.125
"""A terminal redrawn more often than eight times a second only flickers."""

NEWS_A_SECOND = 5
"""Lines about events within one second; more are counted and told as a number."""


def can_redraw(stream: TextIO, live: bool | None) -> bool:
    """Whether to draw on this stream: as wanted, or on terminals; never without rich."""
    is_terminal = stream.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
    return (is_terminal if live is None else live) and importlib.util.find_spec("rich") is not None


class Log:
    """Plain lines; news at once, but only so many a second."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._second, self._in_second, self._untold = 0, 0, 0

    def say(self, line: str) -> None:
        """A line that is always told."""
        print(line, file=self._stream, flush=True)

    def news(self, line: str, now: float) -> None:
        """A line that may be left out in a flood, and counted."""
        if int(now) != self._second:
            self.tell_untold()
            self._second, self._in_second = int(now), 0
        self._in_second += 1
        if self._in_second <= NEWS_A_SECOND:
            self.say(line)
        else:
            self._untold += 1

    def tell_untold(self) -> None:
        """How many lines were left out."""
        if self._untold:
            self.say(f"... and {plural(self._untold, 'more event')}")
            self._untold = 0


class Canvas:
    """A picture that is redrawn in place, not too often."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live

        console = Console(file=stream, highlight=False, force_terminal=True)
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._drawn_s = float("-inf")

    def draw(self, picture: Callable[[], Any], now: float) -> None:
        """Draw, if the last time is long enough ago."""
        if now - self._drawn_s >= DRAW_EVERY_S:
            self._drawn_s = now
            self._live.start()
            self._live.update(picture(), refresh=True)

    def close(self, picture: Callable[[], Any]) -> None:
        """Draw once more and give the terminal back."""
        if self._live.is_started:
            self._live.update(picture())
            self._live.stop()
