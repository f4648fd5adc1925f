"""A training run in one line of text, or as a panel that rich can draw. Pure: a board in, text out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ninelives.view.curve import sparkline
from ninelives.view.pool_model import STATES
from ninelives.view.train_model import TrainBoard
from ninelives.view.words import plural

STYLES = {"starting": "cyan", "running": "green", "hung": "red", "restarting": "yellow", "quarantined": "magenta"}
LATEST = 6
"""Lines about what happened last."""


def status_line(board: TrainBoard) -> str:
    """Everything in one line."""
    parts = [f"{_steps(board)}, {board.steps_per_s:,.0f}/s", _returns(board)]
    if board.idle:
        parts.append(_idle(board))
    parts.append(_faults(board))
    if board.seconds_left:
        parts.append(f"{clock_time(board.seconds_left)} left")
    return " | ".join(parts)


def clock_time(seconds: float) -> str:
    """``1:05``, ``2:00:07``."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"


def _steps(board: TrainBoard) -> str:
    return f"{board.step:,} steps" if board.ends_s is not None else f"{board.step:,} of {board.total:,} steps"


def _returns(board: TrainBoard) -> str:
    if board.mean_return is None or board.best_return is None:
        return f"{plural(board.episodes, 'episode')}, no return yet"
    return f"return {board.mean_return:,.2f}, best {board.best_return:,.2f}, {plural(board.episodes, 'episode')}"


def _idle(board: TrainBoard) -> str:
    return "idle: " + ", ".join(f"{name} {share:.0%}" for name, share in board.idle.items())


def _faults(board: TrainBoard) -> str:
    pool = board.pool
    text = f"{plural(pool.faults, 'fault')}, {plural(pool.restarts, 'restart')}"
    if board.healed:
        text += f", {plural(board.healed, 'slot')} healed"
    return text + (f", {1 - board.valid_share:.1%} of rows lost" if board.valid_share < 1 else "")


def picture(board: TrainBoard, now: float, news: Sequence[str]) -> Any:
    """The panel: progress, slots one by one, returns and their curve, idle shares, faults, what happened last."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.panel import Panel
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    left = "" if board.seconds_left is None else f"   {clock_time(board.seconds_left)} left"
    rows: list[Any] = [
        Text(f"{_steps(board)}   {board.steps_per_s:,.0f} steps/s{left}"),
        Padding(ProgressBar(total=1.0, completed=board.share_done), 0),  # a bare bar does not end its line
        _slots(board),
        Text(_returns(board)),
    ]
    if len(board.curve) > 1:
        rows.append(Text(sparkline([value for _, value in board.thin_curve()]), style="green"))
    rows.append(Text("   ".join([_idle(board)] * bool(board.idle) + [_faults(board)])))
    rows += [Text(line, style="cyan") for line in board.pool.starting(now)[:LATEST]]
    rows += [Text(line, style="dim", overflow="ellipsis", no_wrap=True) for line in news]
    return Panel(Group(*rows), title=f"ninelives {board.name}".rstrip(), title_align="left")


def _slots(board: TrainBoard) -> Any:
    from rich.text import Text

    states = board.slot_states()
    squares = Text.assemble(*[("■", STYLES[state]) for state in states])
    counts = ", ".join(f"{states.count(state)} {state}" for state in STATES if state in states)
    return Text.assemble(squares, f"  {counts}")
