"""A training run in one line of text, or as a panel that rich can draw. Pure: a model in, text out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ninelives.events import Event, HealFailed, SlotHealed
from ninelives.view.curve import sparkline
from ninelives.view.pool_model import STATES
from ninelives.view.pool_panel import STATE_STYLES
from ninelives.view.train_model import TrainModel
from ninelives.view.words import clock_time, plural

LATEST = 6
"""Event lines in the panel."""


def heal_line(event: Event) -> str:
    """One line about how a fault was resolved; empty for other events."""
    if isinstance(event, SlotHealed):
        replayed = plural(event.replayed, "step")
        return f"slot {event.slots[0]}: back in the same state after {event.seconds:.2f} s, {replayed} replayed"
    if isinstance(event, HealFailed):
        return f"slot {event.slots[0]}: episode cut ({event.reason})"
    return ""


def status_line(model: TrainModel) -> str:
    """The whole run in one line."""
    parts = [f"{_steps(model)}, {model.steps_per_s:,.0f}/s", _returns(model)]
    if model.idle:
        parts.append(_idle(model))
    parts.append(_faults(model))
    if model.seconds_left:
        parts.append(f"{clock_time(model.seconds_left)} left")
    return " | ".join(parts)


def _steps(model: TrainModel) -> str:
    return f"{model.step:,} steps" if model.ends_s is not None else f"{model.step:,} of {model.total:,} steps"


def _returns(model: TrainModel) -> str:
    if model.mean_return is None or model.best_return is None:
        return f"{plural(model.episodes, 'episode')}, no return yet"
    return f"return {model.mean_return:,.2f}, best {model.best_return:,.2f}, {plural(model.episodes, 'episode')}"


def _idle(model: TrainModel) -> str:
    return "idle: " + ", ".join(f"{name} {share:.0%}" for name, share in model.idle.items())


def _faults(model: TrainModel) -> str:
    pool = model.pool
    text = f"{plural(pool.faults, 'fault')}, {plural(pool.restarts, 'restart')}"
    if model.healed:
        text += f", {plural(model.healed, 'slot')} healed"
    return text + (f", {1 - model.valid_share:.1%} of rows lost" if model.valid_share < 1 else "")


def panel(model: TrainModel, now: float, event_lines: Sequence[str]) -> Any:
    """Progress, every slot's state, returns and their curve, idle shares, faults, latest events."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.panel import Panel
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    left = "" if model.seconds_left is None else f"   {clock_time(model.seconds_left)} left"
    rows: list[Any] = [
        Text(f"{_steps(model)}   {model.steps_per_s:,.0f} steps/s{left}"),
        Padding(ProgressBar(total=1.0, completed=model.share_done), 0),  # a bare bar does not end its line
        _slots(model),
        Text(_returns(model)),
    ]
    if len(model.curve) > 1:
        rows.append(Text(sparkline([value for _, value in model.thin_curve()]), style="green"))
    rows.append(Text("   ".join([_idle(model)] * bool(model.idle) + [_faults(model)])))
    if model.notice:
        rows.append(Text(model.notice, style="bold yellow"))
    rows += [Text(line, style="cyan") for line in model.pool.starting(now)[:LATEST]]
    rows += [Text(line, style="dim", overflow="ellipsis", no_wrap=True) for line in event_lines]
    return Panel(Group(*rows), title=f"ninelives {model.name}".rstrip(), title_align="left")


def _slots(model: TrainModel) -> Any:
    from rich.text import Text

    states = model.slot_states()
    squares = Text.assemble(*[("■", STATE_STYLES[state]) for state in states])
    counts = ", ".join(f"{states.count(state)} {state}" for state in STATES if state in states)
    return Text.assemble(squares, f"  {counts}")
