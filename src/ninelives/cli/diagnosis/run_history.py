"""Look-ups in the events of one run: starts, faults, outcomes, and their times. Judges nothing.

A long run has hundreds of thousands of events, so nothing that is asked once per fault may look through all of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
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
        found: list[SomeEvent] = self._by_kind.get(kind, [])
        return found

    @cached_property
    def _by_kind(self) -> dict[type[Event], list[Any]]:
        kinds: dict[type[Event], list[Any]] = {}
        for event in self.events:
            kinds.setdefault(type(event), []).append(event)
        return kinds

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
        fresh = [event for slot in fault.slots for event in _from(self._fresh.get(slot, []), fault.at_s)]
        return min((event.at_s - fault.at_s for event in fresh), default=None)

    @cached_property
    def _fresh(self) -> dict[int, list[EpisodeStarted]]:
        return _by_slot(self.all(EpisodeStarted))

    @property
    def heals(self) -> bool:
        """Whether the run was configured to heal slots."""
        return self.started is not None and self.started.on_fault == "heal"

    @cached_property
    def outcomes(self) -> list[Outcome]:
        """How faults were resolved, in a run that heals."""
        return [e for e in self.events if isinstance(e, SlotHealed | HealFailed | SlotQuarantined)]

    @cached_property
    def _outcomes_by_slot(self) -> dict[int, list[Outcome]]:
        return _by_slot(self.outcomes)

    def outcomes_of(self, faults: Iterable[FaultSeen]) -> list[Outcome]:
        """How these faults were resolved; two faults of a slot before it is back share one outcome."""
        found = {}
        for slot, at_s in ((slot, fault.at_s) for fault in faults for slot in fault.slots):
            outcomes = self._outcomes_by_slot.get(slot, [])
            place = bisect_left(outcomes, at_s, key=_at)
            if place < len(outcomes):
                found[slot, place] = outcomes[place]
        return list(found.values())

    def fault_before(self, failed: HealFailed) -> FaultSeen | None:
        """The last fault of a slot before it was given up."""
        faults = [fault for slot in failed.slots for fault in _until(self._faults_by_slot.get(slot, []), failed.at_s)]
        return max(faults, key=_at, default=None)

    @cached_property
    def _faults_by_slot(self) -> dict[int, list[FaultSeen]]:
        return _by_slot(self.faults)

    def size_at_death(self, fault: FaultSeen) -> int:
        """Memory of the fault's process at its end, in bytes; zero if unknown."""
        return self._sizes_at_death.get(fault.pid, 0)

    @cached_property
    def _sizes_at_death(self) -> dict[int | None, int]:
        sizes: dict[int | None, int] = {}
        for gone in self.all(WorkerExited):
            sizes[gone.pid] = max(gone.rss_bytes or 0, sizes.get(gone.pid, 0))
        return sizes

    def sizes_of(self, worker: int | None) -> list[int]:
        """Memory of each process of a worker when it became ready."""
        return [e.rss_bytes for e in self.all(WorkerReady) if e.worker == worker and e.rss_bytes]


def _at(event: Event) -> float:
    return event.at_s


def _by_slot(events: Iterable[SomeEvent]) -> dict[int, list[SomeEvent]]:
    slots: dict[int, list[SomeEvent]] = {}
    for event in events:
        for slot in event.slots:
            slots.setdefault(slot, []).append(event)
    return slots


def _from(events: list[SomeEvent], at_s: float) -> list[SomeEvent]:
    """The first of these that is not earlier, or nothing."""
    place = bisect_left(events, at_s, key=_at)
    return events[place : place + 1]


def _until(events: list[SomeEvent], at_s: float) -> list[SomeEvent]:
    """The last of these that is not later, or nothing."""
    place = bisect_right(events, at_s, key=_at)
    return events[max(place - 1, 0) : place]
