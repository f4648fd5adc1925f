"""A live view of a pool on the terminal; where there is no terminal, plain lines, not too many.

Pass it to the pool as a sink and give it the numbers from time to time::

    with ConsoleView() as view, ninelives.Pool("CartPole-v1", 16, sinks=[view]) as pool:
        ...
        view.update(steps, total, pool.metrics().as_dicts())

It starts no thread, so a program may fork beside it: it draws when it receives something, a few times a second at most.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, TextIO

from ninelives.events import Event
from ninelives.view.live_output import LineOutput, PanelOutput, Status, can_redraw
from ninelives.view.pool_model import PoolModel
from ninelives.view.pool_panel import event_line, panel, status_line

STATUS_EVERY_S = 2.0
"""Status lines that come more often than this are not read."""

LATEST = 4
"""Event lines in the panel."""


class ConsoleView:
    """A sink that shows a pool. ``live=None`` draws on a terminal and prints lines elsewhere."""

    def __init__(
        self, stream: TextIO | None = None, live: bool | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.model = PoolModel()
        self._clock = clock
        stream = stream or sys.stdout
        redraw = can_redraw(stream, live)
        self._output = PanelOutput(stream, LATEST) if redraw else LineOutput(stream, STATUS_EVERY_S)

    def emit(self, event: Event) -> None:
        """Receive one event and show what it changes."""
        line = event_line(event, self.model)  # before it is noted: it needs the time of the phase before it
        self.model.note(event)
        self._show(line)

    def update(
        self,
        steps: int,
        total: int | None = None,
        per_slot: Sequence[Mapping[str, Any]] = (),
        eta_s: float | None = None,
    ) -> None:
        """Receive the current numbers: steps so far, of how many, ``pool.metrics().as_dicts()``, seconds left."""
        self.model.progress(self._clock(), steps, total, per_slot, eta_s)
        self._show("")

    def close(self) -> None:
        """Show the last state and release the terminal."""
        self._output.close(self._status(), lambda lines: panel(self.model, self._clock(), lines))

    def __enter__(self) -> ConsoleView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _show(self, line: str) -> None:
        now = self._clock()
        self._output.show(now, line, self._status(), lambda lines: panel(self.model, now, lines))

    def _status(self) -> Status:
        return (lambda: status_line(self.model)) if self.model.steps else None
