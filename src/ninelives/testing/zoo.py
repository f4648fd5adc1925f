"""The fault zoo: counting environments that fail on purpose, in a given way at a given moment.

``Fragile("segfault", When("step", at=5, slots=(2,)))`` is a picklable factory that a pool takes as an environment, with
every start method. It counts correctly (see ``counting``) until that moment.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ninelives.errors import UsageError
from ninelives.spec.context import SlotContext, current_slot
from ninelives.testing.counting import CountingEnv, Row
from ninelives.testing.faults import BREAKS

PHASES = ("import", "construct", "reset", "step", "close")


@dataclass(frozen=True)
class When:
    """The moment to fail.

    Attributes:
        phase: ``import`` (while the factory is unpickled), ``construct``, ``reset``, ``step`` or ``close``.
        at: the number of the reset or step of one environment, counted from 1.
        again: fail at every later one too.
        slots: fail only in these slots; None: in all. At ``import`` there is no slot yet.
        generations: fail only in these generations of a worker; None: in all. Not known at ``import``.
        once: a file; only the process that creates it fails, so that it happens once in any number of processes.
    """

    phase: str = "step"
    at: int = 1
    again: bool = False
    slots: tuple[int, ...] | None = None
    generations: tuple[int, ...] | None = (1,)
    once: str | None = None

    def __post_init__(self) -> None:
        if self.phase not in PHASES:
            raise ValueError(f"phase={self.phase!r} is not known; allowed: {', '.join(PHASES)}")

    def has_come(self, phase: str, count: int, place: SlotContext | None) -> bool:
        """Whether to fail now, at the ``count``-th time of ``phase``."""
        if phase != self.phase or not (count == self.at or (self.again and count > self.at)):
            return False
        if place is not None and self.slots is not None and place.slot not in self.slots:
            return False
        if place is not None and self.generations is not None and place.generation not in self.generations:
            return False
        return self.once is None or _is_first_to_create(self.once)


@dataclass(frozen=True)
class Fragile:
    """A factory of counting environments that fail: ``fault`` is a name in ``faults.BREAKS``."""

    fault: str = "raise_error"
    when: When = field(default_factory=When)
    episode_steps: int = 0

    def __post_init__(self) -> None:
        if self.fault not in BREAKS:
            raise ValueError(f"fault={self.fault!r} is not known; allowed: {', '.join(BREAKS)}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.fault, self.when, self.episode_steps)

    def __call__(self) -> FragileEnv:
        """Build an environment, or fail."""
        place = _place()
        if self.when.has_come("construct", 1, place):
            BREAKS[self.fault](None)
        return FragileEnv(self, place)


def _unpickled(fault: str, when: When, episode_steps: int) -> Fragile:
    if when.has_come("import", 1, None):
        BREAKS[fault](None)
    return Fragile(fault, when, episode_steps)


class FragileEnv(CountingEnv):
    """Counts until it fails."""

    def __init__(self, plan: Fragile, place: SlotContext | None) -> None:
        super().__init__(plan.episode_steps)
        self._plan, self._place = plan, place
        self._counts = dict.fromkeys(PHASES, 0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Row, dict[str, Any]]:
        """Reset, or fail."""
        answer: tuple[Row, dict[str, Any]] = self._answer("reset", super().reset(seed=seed, options=options))
        return answer

    def step(self, action: int | np.int64) -> tuple[Row, float, bool, bool, dict[str, Any]]:
        """Step, or fail."""
        answer: tuple[Row, float, bool, bool, dict[str, Any]] = self._answer("step", super().step(action))
        return answer

    def close(self) -> None:
        """Close, or fail."""
        self._answer("close", None)

    def _answer(self, phase: str, correct: Any) -> Any:
        self._counts[phase] += 1
        if self._plan.when.has_come(phase, self._counts[phase], self._place):
            return BREAKS[self._plan.fault](correct)
        return correct


def _place() -> SlotContext | None:
    try:
        return current_slot()
    except UsageError:
        return None


def _is_first_to_create(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return False
    return True
