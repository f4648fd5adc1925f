"""Evaluates a policy in a pool: plays whole episodes and scores them.

::

    100 episodes on 8 slots:  slots 0-3 play 13 each, slots 4-7 play 12       fixed before the first step

Each slot plays a fixed number of episodes to their end. Counting the first hundred episodes that end anywhere would
count short episodes more often than long ones. Must never learn, nor touch the run that the policy comes from.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from ninelives.errors import ConfigError, NinelivesError
from ninelives.events import Event, SlotQuarantined
from ninelives.pool.batch import Batch
from ninelives.pool.pool import Pool
from ninelives.spec.env import AnyEnv

SUCCESS_KEYS = ("success", "is_success")
"""Infos of an episode's last step that say whether it reached its goal; the first one present counts."""

CONFIDENCE = 0.95

BatchObserver = Callable[[Pool, Batch], None]


class PolicyLike(Protocol):
    """Anything that chooses actions, such as ``ActingPolicy``."""

    def begin(self, rows: int, *, greedy: bool, seed: int) -> None:
        """Reset for this number of slots."""

    def act(self, batch: Batch, starts: npt.NDArray[np.bool_]) -> Any:
        """Actions for every slot of a full batch; ``starts`` marks rows that are the first of an episode."""


def evaluate(
    policy: PolicyLike,
    env: AnyEnv,
    *,
    episodes: int = 100,
    n_envs: int = 8,
    greedy: bool = True,
    seed: int = 0,
    success: float | None = None,
    on_batch: BatchObserver | None = None,
    **pool_settings: Any,
) -> Score:
    """Play whole episodes and score them.

    Args:
        policy: chooses the actions.
        env: anything ``ninelives.Pool`` accepts.
        episodes: number of episodes that count.
        n_envs: number of slots; at most ``episodes`` are used.
        greedy: always take the most likely action, or sample.
        seed: of the environments and of sampling. The score depends on it and on ``n_envs``, not on workers.
        success: an episode with at least this return is a success; None: as ``info["success"]`` says, if present.
        on_batch: called with every batch before the next actions are sent; for videos.
        **pool_settings: see ``ninelives.PoolOptions``.

    Raises:
        ConfigError: a setting is impossible.
        NinelivesError: slots were quarantined, so that not all episodes can be played.
    """
    if episodes < 1 or n_envs < 1:
        raise ConfigError(f"episodes={episodes} and n_envs={n_envs} must each be 1 or more")
    rows, quarantine = min(n_envs, episodes), _QuarantinedSlots()
    sinks = (*pool_settings.pop("sinks", ()), quarantine)
    with _one_thread(), Pool(env, rows, autoreset="next_step", sinks=sinks, **pool_settings) as pool:
        policy.begin(rows, greedy=greedy, seed=seed)
        counter = _EpisodeCounter(rows, episodes, success)
        batch, starts = pool.reset(seed=seed), np.ones(rows, np.bool_)
        while True:
            if on_batch is not None:
                on_batch(pool, batch)
            if counter.is_complete:
                break
            batch = pool.step(policy.act(batch, starts))
            starts = counter.count(batch)
            counter.check(quarantine.slots)
    return Score(tuple(sorted(counter.played, key=lambda episode: episode.slot)), greedy, counter.cut)


@contextmanager
def _one_thread() -> Iterator[None]:
    """For a few rows, torch's threads cost more than they gain, and the workers need the cores."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _EpisodeCounter:
    """Counts episodes until each slot has played its number."""

    def __init__(self, rows: int, episodes: int, success: float | None) -> None:
        self._left = np.full(rows, episodes // rows) + (np.arange(rows) < episodes % rows)
        self._success, self._ended = success, np.zeros(rows, np.bool_)
        self.cut = 0
        self.played: list[EvaluatedEpisode] = []

    @property
    def is_complete(self) -> bool:
        return not self._left.any()

    def count(self, batch: Batch) -> npt.NDArray[np.bool_]:
        """Count the episodes that ended; returns which rows are the first of an episode."""
        for slot, total, length in zip(
            batch.episodes.slots.tolist(),
            batch.episodes.returns.tolist(),
            batch.episodes.lengths.tolist(),
            strict=True,
        ):
            if self._left[slot]:
                self._left[slot] -= 1
                self.played.append(EvaluatedEpisode(slot, total, length, self._succeeded(batch.infos, slot, total)))
        lost = ~batch.valid
        self.cut += int(np.count_nonzero(lost & batch.truncated & (self._left > 0)))
        ended = (batch.terminated | batch.truncated) & batch.valid
        starts, self._ended = self._ended | lost, ended
        return starts

    def _succeeded(self, infos: Mapping[str, Any], slot: int, total: float) -> bool | None:
        if self._success is not None:
            return total >= self._success
        for key in SUCCESS_KEYS:
            if key in infos and infos[f"_{key}"][slot]:
                return bool(infos[key][slot])
        return None

    def check(self, quarantined: set[int]) -> None:
        """Give up if a quarantined slot still has episodes to play."""
        gone = [slot for slot in sorted(quarantined) if self._left[slot]]
        if gone:
            raise NinelivesError(
                f"slots {gone} are quarantined and have {int(self._left[gone].sum())} episodes left to play: their "
                "environments failed too often. See docs/faults.md on budgets, or raise max_restarts_per_slot"
            )


class _QuarantinedSlots:
    """A sink that collects the slots that the pool gave up."""

    def __init__(self) -> None:
        self.slots: set[int] = set()

    def emit(self, event: Event) -> None:
        if isinstance(event, SlotQuarantined):
            self.slots.update(event.slots)


# ---- scores ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EvaluatedEpisode:
    """One whole episode.

    Attributes:
        slot: where it was played.
        total: the sum of its rewards.
        length: number of steps.
        success: whether it reached its goal; None if unknown.
    """

    slot: int
    total: float
    length: int
    success: bool | None = None


@dataclass(frozen=True)
class Score:
    """The result of an evaluation.

    Attributes:
        episodes: every episode that counts, in the order of slots.
        greedy: whether the most likely action was always taken, or actions were sampled.
        cut: episodes that a fault ended; they do not count, and others were played in their place.
    """

    episodes: tuple[EvaluatedEpisode, ...]
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
        """Standard deviation of the returns (not of their mean)."""
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
        """Number of episodes that reached their goal; None if unknown for all of them."""
        known = self._known_outcomes()
        return sum(known) if known else None

    @property
    def success_rate(self) -> Rate | None:
        """Share of successes with its confidence interval, over the episodes whose outcome is known."""
        known = self._known_outcomes()
        return Rate.of(known) if known else None

    def _known_outcomes(self) -> list[bool]:
        return [episode.success for episode in self.episodes if episode.success is not None]


@dataclass(frozen=True)
class Rate:
    """A share with its confidence interval."""

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
    """Wilson's score interval: reliable also for few trials, and for shares near 0 and 1."""
    if not 0 <= successes <= trials or trials < 1:
        raise ValueError(f"{successes} successes of {trials} trials make no share")
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share, weight = successes / trials, z * z / trials
    centre = (share + weight / 2) / (1 + weight)
    reach = z / (1 + weight) * math.sqrt(share * (1 - share) / trials + weight / (4 * trials))
    # Rounding must not push the bounds past the observed share.
    return min(max(0.0, centre - reach), share), max(min(1.0, centre + reach), share)
