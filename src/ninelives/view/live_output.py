"""Where a live view is shown: plain lines that do not flood a log, or a panel redrawn in place. Knows no content.

Both outputs have the same three methods, so a view does not care which one it writes to.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from ninelives.view.words import plural

DRAW_EVERY_S = 0.125
"""Redrawing a terminal more than eight times a second only makes it flicker."""

EVENTS_PER_SECOND = 5
"""Event lines printed within one second; further ones are only counted."""

Status = Callable[[], str] | None
"""Writes the status line; None while there is nothing to report."""

Panel = Callable[[Sequence[str]], Any]
"""Makes a rich renderable from the latest event lines."""


def can_redraw(stream: TextIO, live: bool | None) -> bool:
    """Whether to draw on this stream: as requested, by default on terminals only; never without rich."""
    is_terminal = stream.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
    return (is_terminal if live is None else live) and importlib.util.find_spec("rich") is not None


class LineOutput:
    """Plain lines: events at once, up to a few per second, and the status every ``status_every_s`` seconds."""

    def __init__(self, stream: TextIO, status_every_s: float) -> None:
        self._stream, self._status_every_s = stream, status_every_s
        self._status_s: float | None = None
        self._second, self._in_second, self._left_out = 0, 0, 0

    def show(self, now: float, event: str, status: Status, panel: Panel) -> None:
        """Print an event line, or else the status if it is due."""
        self._status_s = now if self._status_s is None else self._status_s
        if event:
            self._event(event, now)
        elif status is not None and now - self._status_s >= self._status_every_s:
            self._status_s = now
            self._report_left_out()
            self.say(status())

    def say(self, line: str) -> None:
        """Print a line that must not be left out."""
        print(line, file=self._stream, flush=True)

    def close(self, status: Status, panel: Panel) -> None:
        """Print the last status."""
        self._report_left_out()
        if status is not None:
            self.say(status())

    def _event(self, line: str, now: float) -> None:
        if int(now) != self._second:
            self._report_left_out()
            self._second, self._in_second = int(now), 0
        self._in_second += 1
        if self._in_second <= EVENTS_PER_SECOND:
            self.say(line)
        else:
            self._left_out += 1

    def _report_left_out(self) -> None:
        if self._left_out:
            self.say(f"... and {plural(self._left_out, 'more event')}")
            self._left_out = 0


class PanelOutput:
    """A panel that is redrawn in place, not too often, with the latest events in it."""

    def __init__(self, stream: TextIO, latest: int) -> None:
        from rich.console import Console
        from rich.live import Live

        console = Console(file=stream, highlight=False, force_terminal=True)
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._drawn_s = float("-inf")
        self._latest, self._events = latest, list[str]()

    def show(self, now: float, event: str, status: Status, panel: Panel) -> None:
        """Note the event, and draw if the last time is long enough ago."""
        if event:
            self.say(event)
        if now - self._drawn_s >= DRAW_EVERY_S:
            self._drawn_s = now
            self._live.start()
            self._live.update(panel(self._events), refresh=True)

    def say(self, line: str) -> None:
        """Keep a line for the next drawing."""
        self._events = [*self._events, line][-self._latest :]

    def close(self, status: Status, panel: Panel) -> None:
        """Draw once more and release the terminal."""
        if self._live.is_started:
            self._live.update(panel(self._events))
            self._live.stop()
