"""Where a pool's events go: the latest in memory, all of them to the run directory and to the user's sinks."""

from __future__ import annotations

import os
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

from ninelives.events import Event, MetricsSampled, Sink
from ninelives.pool.metrics import PoolMetrics
from ninelives.view.jsonl import JsonlSink, rotated

RECENT = 2000
"""Events kept in memory: a bad hour's worth."""

SAMPLE_NS = 10_000_000_000
"""How often per-slot numbers are written to the run directory."""

IDLE_SAMPLE_NS = 300_000_000_000
"""How often at least while no slot steps: each idle sample doubles the pause up to this, the first step ends it."""

EVENTS_FILE = "events.jsonl"


class EventLog:
    """Hands every event to every sink; one sink that fails does not keep events from the others."""

    def __init__(self, sinks: Iterable[Sink]) -> None:
        self._sinks = list(sinks)
        self._file: JsonlSink | None = None
        self._recent: deque[Event] = deque(maxlen=RECENT)
        self._next_sample_ns, self._pause_ns = 0, SAMPLE_NS
        self._last: tuple[int, int] | None = None

    @property
    def recent(self) -> tuple[Event, ...]:
        """The latest events, oldest first."""
        return tuple(self._recent)

    def keep_in(self, run_dir: Path) -> None:
        """Write to ``events.jsonl`` of a run directory from now on."""
        self._file = JsonlSink(run_dir / EVENTS_FILE)
        for event in self._recent:
            self._file.emit(event)

    def emit(self, event: Event) -> None:
        """Hand an event to every sink."""
        self._recent.append(event)
        for sink in (*self._sinks, *([self._file] if self._file else [])):
            try:
                sink.emit(event)
            except Exception:
                traceback.print_exc(file=sys.stderr)

    def sample(self, now_ns: int, measure: Callable[[], PoolMetrics], last: bool = False) -> None:
        """Every few seconds, less often while nothing steps, and at the end, emit the per-slot numbers."""
        if (now_ns < self._next_sample_ns and not last) or not (self._file or self._sinks):
            return
        numbers = measure()
        before, steps_before = self._last or (now_ns - int(numbers.seconds * 1e9), 0)
        is_idle = self._last is not None and numbers.steps == steps_before
        self._pause_ns = min(2 * self._pause_ns, IDLE_SAMPLE_NS) if is_idle else SAMPLE_NS
        self._next_sample_ns = now_ns + self._pause_ns
        self._last = (now_ns, numbers.steps)
        rate = (numbers.steps - steps_before) / max((now_ns - before) * 1e-9, 1e-9) if now_ns > before else 0.0
        self.emit(MetricsSampled(steps_per_s=rate, per_slot=numbers.as_dicts()))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def event_files(run_dir: Path) -> tuple[Path, Path]:
    """The files of a run's events, oldest first; the first exists only after a rotation."""
    return rotated(run_dir / EVENTS_FILE), run_dir / EVENTS_FILE


def has_run(run_dir: Path) -> bool:
    """Whether a directory already holds a run."""
    return any(os.path.exists(path) for path in event_files(run_dir))
