"""Fakes for tests: they behave like the real objects, and a test can inspect and control them."""

from __future__ import annotations

from typing import TypeVar

from ninelives.events import Event

Kind = TypeVar("Kind", bound=Event)


class FakeClock:
    """A monotonic clock that only moves when ``advance`` is called."""

    def __init__(self, start_s: float = 1000.0) -> None:
        self._now_ns = int(start_s * 1e9)

    def now_ns(self) -> int:
        """The current time."""
        return self._now_ns

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        if seconds < 0:
            raise ValueError(f"a monotonic clock cannot go back by {-seconds} s")
        self._now_ns += int(seconds * 1e9)


class RecordingSink:
    """A sink that records every event, in order."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        """Record an event."""
        self.events.append(event)

    def of(self, kind: type[Kind]) -> list[Kind]:
        """All events of one kind, oldest first."""
        return [event for event in self.events if isinstance(event, kind)]
