"""A pool in one line of text, or as a panel that rich can draw. Pure: a model in, text out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ninelives.events import Event, FaultSeen, PoolStarted, SlotQuarantined, WorkerReady, WorkerRecycled
from ninelives.view.pool_model import STATES, PoolModel, place_of
from ninelives.view.stacks import fault_place
from ninelives.view.words import clock_time, plural, slots_in_words

STATE_STYLES = {"starting": "cyan", "running": "green", "hung": "red", "restarting": "yellow", "quarantined": "magenta"}
MOST_STARTING = 4
"""Workers on their way up that are listed."""


def event_line(event: Event, model: PoolModel) -> str:
    """One line about an event that a person wants to see; empty for the rest."""
    if isinstance(event, FaultSeen):
        return "" if _is_told_by_error(event) else _fault_line(event)
    if isinstance(event, WorkerReady):
        return _ready_line(event, model)
    if isinstance(event, SlotQuarantined):
        return f"{slots_in_words(event.slots)}: quarantined after {plural(event.restarts, 'fault')}"
    if isinstance(event, WorkerRecycled):
        return f"worker {event.worker}: replaced on purpose, {event.reason}"
    if isinstance(event, PoolStarted):
        size = f"{plural(event.num_envs, 'slot')}, {plural(event.workers, 'worker')}"
        return f"{event.env}: {size}, up after {event.seconds:.2f} s"
    return ""


def _is_told_by_error(fault: FaultSeen) -> bool:
    """An exception before the first observation ends the start at once, with an error that says all of this."""
    return fault.during_start and bool(fault.traceback)


def _fault_line(fault: FaultSeen) -> str:
    slots = fault.slots if fault.culprit is None else (fault.culprit,)
    place = fault_place(fault)
    where = f", at {place}" if place else ""
    return f"{slots_in_words(slots)} (worker {fault.worker}): {fault.summary}{where}"


def _ready_line(event: WorkerReady, model: PoolModel) -> str:
    worker = event.worker or 0
    status = model.workers.get(worker)
    first = (event.generation or 1) == 1
    took = f"{'ready' if first else 'back'} after {event.seconds:.2f} s"
    if status is not None and status.phase == "construct":
        took = f"construct {event.at_s - status.since_s:.1f} s, {took}"
    return f"{place_of(worker, first, event.total)}: {took}"


def status_line(model: PoolModel) -> str:
    """The whole pool in one line."""
    slots = ", ".join(f"{count} {state}" for state, count in model.slots_by_state().items() if count)
    share = f" of {model.total_steps:,}" if model.total_steps else ""
    left = "" if model.seconds_left is None else f" | {clock_time(model.seconds_left)} left"
    memory = f" | {model.memory_bytes / 1e6:,.0f} MB" if model.memory_bytes else ""
    return (
        f"slots: {slots or 'none yet'} | {model.steps:,}{share} steps, {model.steps_per_s:,.0f}/s | "
        f"{plural(model.faults, 'fault')}, {plural(model.restarts, 'restart')}{memory}{left}"
    )


def panel(model: PoolModel, now: float, event_lines: Sequence[str]) -> Any:
    """Slots by state, numbers, workers that are starting, latest events."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.panel import Panel
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    counts = model.slots_by_state()
    squares = Text.assemble(*[("■" * counts[state], STATE_STYLES[state]) for state in STATES])
    legend = Text("   ").join(
        Text(f"{counts[state]} {state}", style=STATE_STYLES[state] if counts[state] else "dim") for state in STATES
    )
    rows: list[Any] = [squares, legend, Text(_numbers(model))]
    if model.total_steps:
        # A bare ProgressBar does not end its line; the padding does.
        rows.append(Padding(ProgressBar(total=model.total_steps, completed=model.steps), 0))
    rows += [Text(line, style="cyan") for line in model.starting(now)[:MOST_STARTING]]
    rows += [Text(line, style="dim", overflow="ellipsis", no_wrap=True) for line in event_lines]
    return Panel(Group(*rows), title="ninelives", title_align="left")


def _numbers(model: PoolModel) -> str:
    parts = [f"{model.steps:,} steps", f"{model.steps_per_s:,.0f} steps/s", plural(model.faults, "fault")]
    parts += [plural(model.restarts, "restart"), f"{model.memory_bytes / 1e6:,.0f} MB"]
    if model.seconds_left is not None:
        parts.append(f"{clock_time(model.seconds_left)} left")
    return "   ".join(parts)
