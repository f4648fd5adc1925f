"""Look-ups in the events of one run: starts, faults, outcomes, and their times. Judges nothing."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from ninelives.events import (
    EpisodeStarted,
    Event,
    FaultSeen,
    HealFailed,
    MetricsSampled,
    PoolClosed,
    PoolStarted,
    SlotHealed,
    SlotQuarantined,
    WorkerExited,
    WorkerReady,
)

SomeEvent = TypeVar("SomeEvent", bound=Event)
Outcome = SlotHealed | HealFailed | SlotQuarantined


@dataclass(frozen=True)
class RunHistory:
    """All events of one pool, in the order they were written."""

    events: tuple[Event, ...]

    @classmethod
    def of(cls, events: Iterable[Event]) -> RunHistory:
        """From an event file, or from ``pool.events``."""
        return cls(tuple(events))

    def all(self, kind: type[SomeEvent]) -> list[SomeEvent]:
        """Every event of a kind."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def started(self) -> PoolStarted | None:
        """The event that all workers were ready; None if they never were."""
        return next(iter(self.all(PoolStarted)), None)

    @property
    def closed(self) -> PoolClosed | None:
        """The end of the run; None if it is still running or was killed."""
        return next(iter(self.all(PoolClosed)), None)

    @property
    def faults(self) -> list[FaultSeen]:
        """All faults."""
        return self.all(FaultSeen)

    @property
    def seconds(self) -> float:
        """From the first event to the last."""
        return self.events[-1].at_s - self.events[0].at_s if self.events else 0.0

    @property
    def slot_numbers(self) -> tuple[dict[str, Any], ...]:
        """The numbers of the last sample, one entry per slot."""
        samples = self.all(MetricsSampled)
        return samples[-1].per_slot if samples else ()

    def since_begin(self, event: Event) -> float:
        """Seconds from the first event to this one."""
        return event.at_s - self.events[0].at_s

    def back_after(self, fault: FaultSeen) -> float | None:
        """Seconds until the first of the fault's slots started a new episode; None if none did."""
        fresh = (e.at_s for e in self.all(EpisodeStarted) if e.at_s >= fault.at_s and set(e.slots) & set(fault.slots))
        return next((at_s - fault.at_s for at_s in fresh), None)

    @property
    def heals(self) -> bool:
        """Whether the run was configured to heal slots."""
        return self.started is not None and self.started.on_fault == "heal"

    @property
    def outcomes(self) -> list[Outcome]:
        """How faults were resolved, in a run that heals."""
        return [e for e in self.events if isinstance(e, SlotHealed | HealFailed | SlotQuarantined)]

    def outcomes_of(self, faults: Iterable[FaultSeen]) -> list[Outcome]:
        """How these faults were resolved; two faults of a slot before it is back share one outcome."""
        by_slot: dict[int, list[Outcome]] = {}
        for outcome in self.outcomes:
            for slot in outcome.slots:
                by_slot.setdefault(slot, []).append(outcome)
        found = {}
        for slot, at_s in ((slot, fault.at_s) for fault in faults for slot in fault.slots):
            outcomes = by_slot.get(slot, [])
            place = bisect_left(outcomes, at_s, key=lambda outcome: outcome.at_s)
            if place < len(outcomes):
                found[slot, place] = outcomes[place]
        return list(found.values())

    def fault_before(self, failed: HealFailed) -> FaultSeen | None:
        """The last fault of a slot before it was given up."""
        faults = [f for f in self.faults if f.at_s <= failed.at_s and set(f.slots) & set(failed.slots)]
        return faults[-1] if faults else None

    def size_at_death(self, fault: FaultSeen) -> int:
        """Memory of the fault's process at its end, in bytes; zero if unknown."""
        sizes = (gone.rss_bytes or 0 for gone in self.all(WorkerExited) if gone.pid == fault.pid)
        return max(sizes, default=0)

    def sizes_of(self, worker: int | None) -> list[int]:
        """Memory of each process of a worker when it became ready."""
        return [e.rss_bytes for e in self.all(WorkerReady) if e.worker == worker and e.rss_bytes]
