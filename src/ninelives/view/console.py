"""A live picture of a pool on the terminal; plain lines, not too many, where there is no terminal.

Give it to the pool as a sink and tell it the numbers now and then::

    with ConsoleView() as view, ninelives.Pool("CartPole-v1", 16, sinks=[view]) as pool:
        ...
        view.update(steps, total, pool.metrics().as_dicts())

It starts no thread: it draws when it is told something, at most a few times a second, so a program may fork beside it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, TextIO

from ninelives.events import Event, FaultSeen, PoolStarted, SlotQuarantined, WorkerReady, WorkerRecycled
from ninelives.view.live_output import Canvas, Log, can_redraw
from ninelives.view.pool_model import STATES, Board
from ninelives.view.words import plural, slots_in_words

TELL_EVERY_S = 2.0
"""A log that says how it goes more often than this is not read."""

STYLES = {"starting": "cyan", "running": "green", "hung": "red", "restarting": "yellow", "quarantined": "magenta"}
LATEST = 4


class ConsoleView:
    """A sink that shows a pool. ``live=None`` draws on a terminal and writes lines elsewhere."""

    def __init__(
        self, stream: TextIO | None = None, live: bool | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.board = Board()
        self._stream = stream or sys.stdout
        self._clock = clock
        self._face: _Picture | _Lines = (_Picture if can_redraw(self._stream, live) else _Lines)(self._stream)

    def emit(self, event: Event) -> None:
        """Take one event, show what it changes."""
        news = news_of(event, self.board)  # before it is noted: how long the phase before it took
        self.board.note(event)
        self._face.show(self.board, self._clock(), news)

    def update(
        self,
        steps: int,
        total: int | None = None,
        per_slot: Sequence[Mapping[str, Any]] = (),
        eta_s: float | None = None,
    ) -> None:
        """The numbers of the moment: steps so far, of how many, ``pool.metrics().as_dicts()``, seconds left."""
        now = self._clock()
        self.board.progress(now, steps, total, per_slot, eta_s)
        self._face.show(self.board, now, "")

    def close(self) -> None:
        """Show the last state and give the terminal back."""
        self._face.close(self.board, self._clock())

    def __enter__(self) -> ConsoleView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def news_of(event: Event, board: Board) -> str:
    """One line about an event that a person wants to see; empty for the rest."""
    if isinstance(event, FaultSeen):
        guilty = event.slots if event.culprit is None else (event.culprit,)
        return f"{slots_in_words(guilty)} (worker {event.worker}): {event.summary}"
    if isinstance(event, WorkerReady):
        return _came_up(event, board)
    if isinstance(event, SlotQuarantined):
        return f"{slots_in_words(event.slots)}: taken out after {plural(event.restarts, 'fault')}"
    if isinstance(event, WorkerRecycled):
        return f"worker {event.worker}: replaced on purpose, {event.reason}"
    if isinstance(event, PoolStarted):
        size = f"{plural(event.num_envs, 'slot')}, {plural(event.workers, 'worker')}"
        return f"{event.env}: {size}, up after {event.seconds:.2f} s"
    return ""


def _came_up(event: WorkerReady, board: Board) -> str:
    worker = event.worker or 0
    line = board.workers.get(worker)
    first = (event.generation or 1) == 1
    took = f"{'ready' if first else 'back'} after {event.seconds:.2f} s"
    if line is not None and line.phase == "construct":
        took = f"construct {event.at_s - line.since_s:.1f} s, {took}"
    return f"{board.place_of(worker, first)}: {took}"


def status_line(board: Board) -> str:
    """Everything in one line."""
    slots = ", ".join(f"{count} {state}" for state, count in board.slots_by_state().items() if count)
    share = f" of {board.total_steps:,}" if board.total_steps else ""
    left = "" if board.seconds_left is None else f" | {_clock_time(board.seconds_left)} left"
    memory = f" | {board.memory_bytes / 1e6:,.0f} MB" if board.memory_bytes else ""
    return (
        f"slots: {slots or 'none yet'} | {board.steps:,}{share} steps, {board.steps_per_s:,.0f}/s | "
        f"{plural(board.faults, 'fault')}, {plural(board.restarts, 'restart')}{memory}{left}"
    )


class _Lines:
    """Plain text: the state now and then, news at once but not in floods."""

    def __init__(self, stream: TextIO) -> None:
        self._log = Log(stream)
        self._told_s: float | None = None

    def show(self, board: Board, now: float, news: str) -> None:
        self._told_s = now if self._told_s is None else self._told_s
        if news:
            self._log.news(news, now)
        elif board.steps and now - self._told_s >= TELL_EVERY_S:
            self._told_s = now
            self._log.tell_untold()
            self._log.say(status_line(board))

    def close(self, board: Board, now: float) -> None:
        self._log.tell_untold()
        if board.steps:
            self._log.say(status_line(board))


class _Picture:
    """A panel that is redrawn in place."""

    def __init__(self, stream: TextIO) -> None:
        self._canvas = Canvas(stream)
        self._news: list[str] = []

    def show(self, board: Board, now: float, news: str) -> None:
        if news:
            self._news = [*self._news, news][-LATEST:]
        self._canvas.draw(lambda: picture(board, now, self._news), now)

    def close(self, board: Board, now: float) -> None:
        self._canvas.close(lambda: picture(board, now, self._news))


def picture(board: Board, now: float, news: Sequence[str]) -> Any:
    """The panel: slots by state, numbers, who starts, what happened last."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.panel import Panel
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    counts = board.slots_by_state()
    bar = Text.assemble(*[("■" * counts[state], STYLES[state]) for state in STATES])
    legend = Text("   ").join(
        Text(f"{counts[state]} {state}", style=STYLES[state] if counts[state] else "dim") for state in STATES
    )
    rows: list[Any] = [bar, legend, Text(_numbers(board))]
    if board.total_steps:
        # A bar does not end its line by itself; what it is padded with does.
        rows.append(Padding(ProgressBar(total=board.total_steps, completed=board.steps), 0))
    rows += [Text(line, style="cyan") for line in board.starting(now)[:LATEST]]
    rows += [Text(line, style="dim", overflow="ellipsis", no_wrap=True) for line in news]
    return Panel(Group(*rows), title="ninelives", title_align="left")


def _numbers(board: Board) -> str:
    parts = [f"{board.steps:,} steps", f"{board.steps_per_s:,.0f} steps/s", plural(board.faults, "fault")]
    parts += [plural(board.restarts, "restart"), f"{board.memory_bytes / 1e6:,.0f} MB"]
    if board.seconds_left is not None:
        parts.append(f"{_clock_time(board.seconds_left)} left")
    return "   ".join(parts)


def _clock_time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"
