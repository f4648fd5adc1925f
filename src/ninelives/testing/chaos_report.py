"""What a run under chaos was like: counted from the pool's events, and from the rows that were compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ninelives.events import Event, FaultSeen, HealFailed, RestartScheduled, SlotHealed
from ninelives.testing.paired_run import Difference


@dataclass(frozen=True)
class Percentiles:
    """Of a number of durations, in seconds."""

    count: int
    p50: float
    p90: float
    max: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Percentiles | None:
        """None if there are none."""
        if not seconds:
            return None
        p50, p90 = np.percentile(seconds, [50, 90])
        return cls(len(seconds), float(p50), float(p90), max(seconds))


@dataclass(frozen=True)
class ChaosReport:
    """What happened.

    Attributes:
        env: the environment's name.
        steps: environment steps of the pool under chaos, all slots together.
        seconds: how long that took.
        murders: murders that reached a living worker, by kind.
        wanted: murders that were asked for, by kind.
        faults: faults the pool has seen, by signal or kind.
        phases: what the workers were doing then.
        restarts: workers that were started again.
        recovery_s: from a fault to the slot being healed; None if nothing was healed.
        replayed_steps: steps made again on the way.
        compared_rows: rows compared with the twin's; a slot is compared until its first difference or cut row.
        cut_rows: rows with ``valid=False``.
        not_healed: reasons why slots could not be healed, with how often.
        first_not_healed: the first of them in words.
        first_difference: the first valid row that was not the twin's.
    """

    env: str
    steps: int
    seconds: float
    murders: Mapping[str, int]
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
        """Every row was there, and every row was equal."""
        return self.first_difference is None and not self.cut_rows

    @property
    def steps_per_s(self) -> float:
        """Speed of the pool under chaos, with the twin beside it."""
        return self.steps / max(self.seconds, 1e-9)


class Witness:
    """Hears every event of the pool under chaos."""

    def __init__(self) -> None:
        self.broken: set[int] = set()
        self.faults: Counter[str] = Counter()
        self.phases: Counter[str] = Counter()
        self.not_healed: Counter[str] = Counter()
        self.first_not_healed: str | None = None
        self.recoveries_s: list[float] = []
        self.replayed_steps = self.restarts = 0

    def emit(self, event: Event) -> None:
        """Take one event."""
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
