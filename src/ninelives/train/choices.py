"""What a run chooses by itself, each with the reason in words: device, threads, overlap. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ninelives.train.config.classes import TrainConfig

SMALL = 1e9
"""Operations of one gradient step below which a second thread costs more than it brings, on a busy machine far more."""

TINY = 1e8
"""Operations of one gradient step below which most of its time is Python's, which two threads cannot run at once."""

GAIN = 1.15
"""Overlap is switched on if it is expected to be so much faster: below that its lag is not worth it."""


@dataclass(frozen=True)
class Choice:
    """A value and the reason."""

    value: int
    because: str


@dataclass(frozen=True)
class Cycle:
    """What one collecting and one learning took, measured one after the other.

    Attributes:
        collect_s: time of collecting.
        learn_s: time of learning.
        cpu_s: processor time of both, all processes together.
    """

    collect_s: float
    learn_s: float
    cpu_s: float


def operations(config: TrainConfig, slots: int, per_row: int) -> float:
    """Of one gradient step: forward, and twice as much backward; each a multiplication and an addition."""
    return 6.0 * per_row * config.ppo.n_steps * slots / config.ppo.minibatches


def choose_threads(config: TrainConfig, work: float, cores: int) -> Choice:
    """Threads of the learner's arithmetic. Depends on no measurement and not on workers, so that bits do not either."""
    if config.threads != "auto":
        return Choice(config.threads, f"threads={config.threads}: as configured")
    if work < SMALL or cores == 1:
        return Choice(1, f"threads=1: {work / 1e6:,.0f} million operations a gradient step are too few for more")
    if config.overlap == "on":
        return Choice(max(1, cores - 1), f"threads={max(1, cores - 1)}: all cores but one, which collects meanwhile")
    return Choice(cores, f"threads={cores}: workers rest while the learner learns")


def choose_overlap(cycle: Cycle, cores: int) -> Choice:
    """Whether collecting and learning at once would pay: 1 or 0."""
    serial = cycle.collect_s + cycle.learn_s
    limits = {
        "collecting": cycle.collect_s,
        "learning": cycle.learn_s,
        f"{cores} cores": cycle.cpu_s / cores,
    }
    limit = max(limits, key=lambda name: limits[name])
    gain = serial / max(limits[limit], 1e-9)
    measured = f"collecting {cycle.collect_s * 1e3:.0f} ms, learning {cycle.learn_s * 1e3:.0f} ms"
    if gain >= GAIN:
        return Choice(1, f"overlap=on: {measured}; at once up to {gain:.2f} times as fast, limited by {limit}")
    return Choice(0, f"overlap=off: {measured}; at once hardly faster ({gain:.2f} times), limited by {limit}")
