"""Honest fakes: they do what the real thing does, only where a test can see and steer it."""

from __future__ import annotations

from typing import TypeVar

from ninelives.events import Event

Kind = TypeVar("Kind", bound=Event)


class FakeClock:
    """A clock that stands still until it is told to go on, and never goes back."""

    def __init__(self, start_s: float = 1000.0) -> None:
        self._now_ns = int(start_s * 1e9)

    def now_ns(self) -> int:
        """The time it was set to."""
        return self._now_ns

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        if seconds < 0:
            raise ValueError(f"a monotonic clock cannot go back by {-seconds} s")
        self._now_ns += int(seconds * 1e9)


class RecordingSink:
    """A sink that remembers every event, in order."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        """Remember it."""
        self.events.append(event)

    def of(self, kind: type[Kind]) -> list[Kind]:
        """All events of one kind, oldest first."""
        return [event for event in self.events if isinstance(event, kind)]
