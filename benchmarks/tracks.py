"""What one run of training tells: when each update was done, every episode, and how good the policy was at its end.

Owns the numbers and their arithmetic; knows no system.
"""

from __future__ import annotations

import bisect
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

WARM_UPDATES = 2
"""Marks left out at the beginning of a run: imports, first allocations, first compilations."""


@dataclass
class Course:
    """One run.

    Attributes:
        marks: (seconds, steps) after every update.
        episodes: (steps, return) of every episode that ended.
        evaluation: mean return of the final policy, ``greedy`` and ``drawn``.
        facts: anything else worth a column.
    """

    marks: list[tuple[float, int]] = field(default_factory=list)
    episodes: list[tuple[int, float]] = field(default_factory=list)
    evaluation: dict[str, float] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def mark(self, steps: int) -> None:
        """An update is done, so many steps are behind us."""
        self.marks.append((time.perf_counter(), steps))

    def episode(self, steps: int, total: float) -> None:
        """An episode ended at this step."""
        self.episodes.append((steps, total))

    @property
    def rate(self) -> float:
        """Steps per second, collecting and learning, without the start."""
        marks = self.marks[WARM_UPDATES:] if len(self.marks) > 2 * WARM_UPDATES else self.marks
        (began, first), (ended, last) = marks[0], marks[-1]
        return (last - first) / (ended - began)

    @property
    def seconds(self) -> float:
        """From the first mark to the last."""
        return self.marks[-1][0] - self.marks[0][0]

    def last(self, count: int = 100) -> float:
        """Mean return of the last episodes of the training itself."""
        tail = [total for _, total in self.episodes[-count:]]
        return statistics.mean(tail) if tail else float("nan")

    def curve(self, at: Sequence[float], window: int = 50) -> list[float]:
        """The mean return of the last ``window`` episodes at each of these steps; NaN before the first episode."""
        steps = [step for step, _ in self.episodes]
        points = []
        for step in at:
            upto = bisect.bisect_right(steps, step)
            seen = [total for _, total in self.episodes[max(0, upto - window) : upto]]
            points.append(statistics.mean(seen) if seen else float("nan"))
        return points

    def reached(self, goal: float, window: int = 50) -> int | None:
        """The step at which the mean of the last ``window`` episodes first was at the goal."""
        total = 0.0
        for number, (step, value) in enumerate(self.episodes):
            total += value - (self.episodes[number - window][1] if number >= window else 0.0)
            if number + 1 >= window and total / window >= goal:
                return step
        return None

    def as_json(self) -> str:
        """For a file."""
        return json.dumps(asdict(self))

    @classmethod
    def of_json(cls, text: str) -> Course:
        """From a file."""
        return cls(**json.loads(text))
