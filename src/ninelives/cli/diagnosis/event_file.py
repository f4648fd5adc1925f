"""Reads ``events.jsonl`` of a run directory back into events, whatever state the file is in.

A long run has two files, of which the older one is read first. A killed run leaves an incomplete last line, and a newer
version writes unknown events and fields: both are counted and skipped. A file that contains something else is an error.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ninelives import events
from ninelives.errors import ConfigError
from ninelives.events import Event, PoolStarted
from ninelives.train.saving.run_dir import starts_of
from ninelives.view.jsonl import rotated

EVENTS_FILE = "events.jsonl"
TRAINERS_POOL = "pool"

_KINDS: dict[str, type[Event]] = {kind.__name__: kind for kind in Event.__subclasses__()}
_HINTS = {kind: typing.get_type_hints(kind, vars(events)) for kind in _KINDS.values()}


@dataclass(frozen=True)
class EventFile:
    """The events that could be read, and how many lines could not.

    ``kept_from_s``: how long after the start of the pool the events begin, where older files were replaced; else 0.
    """

    events: tuple[Event, ...]
    unreadable: int
    cut_short: bool
    kept_from_s: float = 0.0


def read_events(run_dir: Path) -> EventFile:
    """Read the events of a run.

    Raises:
        ConfigError: there is no run here, or the file contains something else.
    """
    if not run_dir.exists():
        raise ConfigError(f"RUN_DIR={str(run_dir)!r}: no such directory; `ninelives runs` lists runs")
    path = _events_file(run_dir)
    files = [file for file in (rotated(path), path) if file.is_file()]
    if not files:
        raise ConfigError(
            f"RUN_DIR={str(run_dir)!r} contains no {EVENTS_FILE}; pass the run directory of `ninelives train`, or the "
            f"run_dir of a pool: ninelives.Pool(..., run_dir={str(run_dir)!r})"
        )
    try:
        file = _parse(path, [line for file in files for line in _lines_of(file)])
    except OSError as error:
        raise ConfigError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    return dataclasses.replace(file, kept_from_s=_kept_from_s(file.events)) if len(files) > 1 else file


def _kept_from_s(events: tuple[Event, ...]) -> float:
    """A file that follows another begins with a copy of ``PoolStarted``; the first file of all begins with workers."""
    return events[1].at_s - events[0].at_s if isinstance(events[0], PoolStarted) and len(events) > 1 else 0.0


def command_of(run_dir: Path) -> list[Any]:
    """The command line of a training run's latest start; empty for the run directory of a pool."""
    return next((start["command"] for start in reversed(starts_of(run_dir)) if _is_list(start.get("command"))), [])


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _events_file(run_dir: Path) -> Path:
    """The trainer keeps its pool's events in a subdirectory."""
    if not run_dir.is_dir():
        return run_dir
    own = run_dir / EVENTS_FILE
    return own if own.exists() or rotated(own).exists() else run_dir / TRAINERS_POOL / EVENTS_FILE


def _lines_of(path: Path) -> list[bytes]:
    with path.open("rb") as lines:
        return [line for line in lines if line.strip()]


def _parse(path: Path, lines: list[bytes]) -> EventFile:
    if not lines:
        raise ConfigError(f"{str(path)!r} is empty: no worker had been started yet")
    read = [event_of(line) for line in lines]
    known = tuple(event for event in read if event is not None)
    if not known:
        raise ConfigError(
            f"{str(path)!r} is not an event file: none of its {len(lines)} lines is an event of ninelives"
        )
    cut_short = read[-1] is None and not lines[-1].endswith(b"\n")
    return EventFile(known, len(read) - len(known) - cut_short, cut_short)


def event_of(line: bytes) -> Event | None:
    """One line as an event; None if it is not an event that this version knows."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    name = fields.pop("event", None) if isinstance(fields, dict) else None
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        return None
    hints = _HINTS[kind]
    known = {key: value for key, value in fields.items() if key in hints}
    if not all(_fits(value, hints[key]) for key, value in known.items()):
        return None
    values: dict[str, Any] = {key: None for key, hint in hints.items() if hint is Any}  # None is not written
    values |= {key: tuple(value) if _is_tuple(hints[key]) else value for key, value in known.items()}
    try:
        return kind(**values)
    except TypeError:
        return None  # a field is missing


def _is_tuple(hint: Any) -> bool:
    return typing.get_origin(hint) is tuple


def _fits(value: Any, hint: Any) -> bool:
    """Whether a JSON value has the type of the event's annotation."""
    if isinstance(hint, types.UnionType):
        return any(_fits(value, option) for option in typing.get_args(hint))
    if hint is Any:
        return True
    if _is_tuple(hint):
        return isinstance(value, list) and all(_fits(entry, typing.get_args(hint)[0]) for entry in value)
    if hint is float:
        return isinstance(value, int | float)
    return isinstance(value, typing.get_origin(hint) or hint)
