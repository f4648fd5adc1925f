"""How good a policy was: returns, lengths and successes of whole episodes, and how sure that is.

Owns the arithmetic. Plays nothing, prints nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Self

import numpy as np

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Played:
    """One whole episode.

    Attributes:
        slot: where it was played.
        total: the sum of its rewards.
        length: how many steps it had.
        success: whether it reached its goal; None if nobody said.
    """

    slot: int
    total: float
    length: int
    success: bool | None = None


@dataclass(frozen=True)
class Score:
    """The result of playing a policy.

    Attributes:
        episodes: every episode that counts, in the order of slots.
        greedy: whether the likeliest action was always taken, or actions were drawn.
        cut: episodes that a fault ended; none of them counts, and others were played in their place.
    """

    episodes: tuple[Played, ...]
    greedy: bool
    cut: int = 0

    @property
    def returns(self) -> list[float]:
        """The return of each episode."""
        return [episode.total for episode in self.episodes]

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(np.mean(self.returns))

    @property
    def std(self) -> float:
        """Spread of the returns (not of their mean)."""
        return float(np.std(self.returns))

    @property
    def median(self) -> float:
        """Median return."""
        return self.quantile(0.5)

    @property
    def mean_length(self) -> float:
        """Mean number of steps."""
        return float(np.mean([episode.length for episode in self.episodes]))

    def quantile(self, q: float) -> float:
        """The return that a share ``q`` of the episodes does not exceed."""
        return float(np.quantile(self.returns, q))

    @property
    def successes(self) -> int | None:
        """How many episodes reached their goal; None if nobody said what a success is."""
        told = [episode.success for episode in self.episodes if episode.success is not None]
        return sum(told) if told else None

    @property
    def success_rate(self) -> Rate | None:
        """Share of successes with its interval, over the episodes that told."""
        told = [episode.success for episode in self.episodes if episode.success is not None]
        return Rate.of(told) if told else None


@dataclass(frozen=True)
class Rate:
    """A share and the interval it is known to lie in."""

    share: float
    low: float
    high: float
    trials: int

    @classmethod
    def of(cls, outcomes: Sequence[bool], confidence: float = CONFIDENCE) -> Self:
        """The share of true outcomes."""
        low, high = wilson(sum(outcomes), len(outcomes), confidence)
        return cls(sum(outcomes) / len(outcomes), low, high, len(outcomes))

    def __str__(self) -> str:
        return f"{self.share:.1%} ({self.low:.1%} to {self.high:.1%} of {self.trials})"


def wilson(successes: int, trials: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Wilson's score interval: honest also for few trials, and for shares near 0 and 1."""
    if not 0 <= successes <= trials or trials < 1:
        raise ValueError(f"{successes} successes of {trials} trials make no share")
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share, weight = successes / trials, z * z / trials
    centre = (share + weight / 2) / (1 + weight)
    reach = z / (1 + weight) * math.sqrt(share * (1 - share) / trials + weight / (4 * trials))
    # Rounding must not push the ends past what was seen.
    return min(max(0.0, centre - reach), share), max(min(1.0, centre + reach), share)
