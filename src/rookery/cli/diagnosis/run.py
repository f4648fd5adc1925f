"""One run's events, looked up: who started, who broke, who came back, and when. Judges nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from rookery.events import (
    EpisodeStarted,
    Event,
    FaultSeen,
    MetricsSampled,
    PoolClosed,
    PoolStarted,
    WorkerExited,
    WorkerReady,
)

SomeEvent = TypeVar("SomeEvent", bound=Event)


@dataclass(frozen=True)
class Run:
    """All events of one pool, in the order they were written."""

    events: tuple[Event, ...]

    @classmethod
    def of(cls, events: Iterable[Event]) -> Run:
        """From a record, or from ``pool.events``."""
        return cls(tuple(events))

    def all(self, kind: type[SomeEvent]) -> list[SomeEvent]:
        """Every event of a kind."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def started(self) -> PoolStarted | None:
        """When all workers were up; None if they never were."""
        return next(iter(self.all(PoolStarted)), None)

    @property
    def closed(self) -> PoolClosed | None:
        """The end; None if the run goes on or was killed."""
        return next(iter(self.all(PoolClosed)), None)

    @property
    def faults(self) -> list[FaultSeen]:
        """Everything that broke."""
        return self.all(FaultSeen)

    @property
    def seconds(self) -> float:
        """From the first event to the last."""
        return self.events[-1].at_s - self.events[0].at_s if self.events else 0.0

    @property
    def slot_numbers(self) -> tuple[dict[str, Any], ...]:
        """The last sample's numbers, one entry a slot."""
        samples = self.all(MetricsSampled)
        return samples[-1].per_slot if samples else ()

    def since_begin(self, event: Event) -> float:
        """Seconds from the first event to this one."""
        return event.at_s - self.events[0].at_s

    def back_after(self, fault: FaultSeen) -> float | None:
        """Seconds until the first of the fault's slots had a fresh episode; None if none ever had."""
        fresh = (e.at_s for e in self.all(EpisodeStarted) if e.at_s >= fault.at_s and set(e.slots) & set(fault.slots))
        return next((at_s - fault.at_s for at_s in fresh), None)

    def size_at_death(self, fault: FaultSeen) -> int:
        """Memory of the fault's process when it was reaped, in bytes; zero if nobody knows."""
        sizes = (gone.rss_bytes or 0 for gone in self.all(WorkerExited) if gone.pid == fault.pid)
        return max(sizes, default=0)

    def sizes_of(self, worker: int | None) -> list[int]:
        """Memory of a worker's present and past processes when they were ready."""
        return [e.rss_bytes for e in self.all(WorkerReady) if e.worker == worker and e.rss_bytes]
