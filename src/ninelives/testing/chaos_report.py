"""The result of a chaos run: counted from the pool's events and from the rows that were compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ninelives.events import Event, FaultSeen, HealFailed, RestartScheduled, SlotHealed
from ninelives.testing.paired_run import Difference


@dataclass(frozen=True)
class Percentiles:
    """Percentiles of durations, in seconds."""

    count: int
    p50: float
    p90: float
    max: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Percentiles | None:
        """The percentiles of these durations; None for an empty list."""
        if not seconds:
            return None
        p50, p90 = np.percentile(seconds, [50, 90])
        return cls(len(seconds), float(p50), float(p90), max(seconds))


@dataclass(frozen=True)
class ChaosReport:
    """The result of a chaos run.

    Attributes:
        env: the environment's name.
        steps: environment steps of the disturbed pool, all slots together.
        seconds: duration of the run.
        delivered: faults that reached a living worker, by kind.
        wanted: faults that were asked for, by kind.
        faults: faults that the pool has seen, by signal or kind.
        phases: the phases of the workers at these faults.
        restarts: number of workers that were restarted.
        recovery_s: time from a fault until the slot is healed; None if nothing was healed.
        replayed_steps: steps that were replayed.
        compared_rows: rows compared with the reference; a slot is compared until its first difference or cut row.
        cut_rows: rows with ``valid=False``.
        not_healed: reasons why slots could not be healed, and how often each.
        first_not_healed: a description of the first of them.
        first_difference: the first valid row that differs from the reference.
    """

    env: str
    steps: int
    seconds: float
    delivered: Mapping[str, int]
    wanted: Mapping[str, int]
    faults: Mapping[str, int]
    phases: Mapping[str, int]
    restarts: int
    recovery_s: Percentiles | None
    replayed_steps: int
    compared_rows: int
    cut_rows: int
    not_healed: Mapping[str, int]
    first_not_healed: str | None
    first_difference: Difference | None

    @property
    def is_exact(self) -> bool:
        """Whether no row was cut and every row was equal."""
        return self.first_difference is None and not self.cut_rows

    @property
    def steps_per_s(self) -> float:
        """Speed of the disturbed pool while the reference pool runs beside it."""
        return self.steps / max(self.seconds, 1e-9)


class EventCounts:
    """A sink that counts the events of the disturbed pool."""

    def __init__(self) -> None:
        self.broken: set[int] = set()
        self.faults: Counter[str] = Counter()
        self.phases: Counter[str] = Counter()
        self.not_healed: Counter[str] = Counter()
        self.first_not_healed: str | None = None
        self.recoveries_s: list[float] = []
        self.replayed_steps = self.restarts = 0

    def emit(self, event: Event) -> None:
        """Count one event."""
        if isinstance(event, FaultSeen):
            self.faults[event.signal or event.kind] += 1
            self.phases[event.phase] += 1
            self.broken.update(event.slots)
        elif isinstance(event, RestartScheduled):
            self.restarts += 1
        elif isinstance(event, SlotHealed):
            self.recoveries_s.append(event.seconds)
            self.replayed_steps += event.replayed
        elif isinstance(event, HealFailed):
            self._note_failure(event)

    def _note_failure(self, event: HealFailed) -> None:
        self.not_healed[event.reason] += 1
        words = f"slot {event.slots[0]}, step {event.step}, action {event.action!r}: {event.detail}"
        self.first_not_healed = self.first_not_healed or f"{event.reason}: {words}"
