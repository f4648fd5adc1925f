"""What a training run reports to its callbacks: frozen records. The pool's own events are ``ninelives.events``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ninelives.pool.pool import Pool
    from ninelives.train.config.classes import TrainConfig


@dataclass(frozen=True, kw_only=True)
class Started:
    """Everything is built and the first observations have arrived.

    Attributes:
        config: as resolved; ``n_envs`` is a number.
        run_dir: directory of the run, if it has one.
        pool: the live pool, for ``metrics()`` and the like; must not be stepped.
        step: steps done before: 0, or where a resumed run continues.
        workers: worker processes of the pool.
        threads: torch threads of the learner.
        device: of the learner.
        parameters: number of weights of the network.
        because: one sentence per value that the run chose by itself: environments, workers, threads, overlap.
    """

    config: TrainConfig
    run_dir: Path | None
    pool: Pool
    step: int
    workers: int
    threads: int
    device: str
    parameters: int
    because: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RolloutDone:
    """A rollout was collected.

    Attributes:
        step: steps done so far, this rollout included.
        seconds: how long collecting took.
        steps_per_s: end to end since the previous rollout: collecting, learning and everything else.
        version: of the weights that acted.
        valid_share: share of its rows that are true transitions; the others were lost to faults.
        learned_share: share of its rows that are learned from; reset rows of next-step autoreset are not.
        mean_return: over the last episodes (``log.window``); None before the first has ended.
        episodes: number of episodes that have ended so far.
    """

    step: int
    seconds: float
    steps_per_s: float
    version: int
    valid_share: float
    learned_share: float
    mean_return: float | None
    episodes: int


@dataclass(frozen=True, kw_only=True)
class UpdateDone:
    """The network learned from a rollout.

    Attributes:
        step: steps done so far.
        version: of the new weights.
        lag: how many versions old the acting weights were.
        seconds: how long learning took.
        losses: ``policy_loss``, ``value_loss``, ``entropy``, ``approx_kl``, ``clip_fraction``, ``explained_variance``,
            ``grad_norm``, ``learning_rate``, ``epochs`` and others.
        idle_collect: share of the cycle in which no rollout was being collected.
        idle_learn: share of the cycle in which the learner was idle.
    """

    step: int
    version: int
    lag: int
    seconds: float
    losses: Mapping[str, float]
    idle_collect: float
    idle_learn: float


@dataclass(frozen=True, kw_only=True)
class EpisodeDone:
    """An episode ended.

    Attributes:
        slot: where it was played.
        step: steps done so far.
        total: the sum of its rewards.
        length: number of steps.
        seconds: since this process started the run.
        took_s: duration of the episode.
    """

    slot: int
    step: int
    total: float
    length: int
    seconds: float
    took_s: float


@dataclass(frozen=True, kw_only=True)
class CheckpointWritten:
    """A checkpoint is on disk."""

    path: Path
    step: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class SettingChosen:
    """A setting that was chosen after a measurement, with the reason in words: ``overlap``."""

    name: str
    value: str
    because: str


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a run ended with.

    Attributes:
        step: steps done.
        episodes: number of episodes that ended.
        mean_return: over the last episodes (``log.window``); None if none ended.
        version: of the weights.
        seconds: since this process started or resumed the run.
        steps_per_s: since this process started or resumed the run.
        weights_sha256: of the weights; equal runs have equal hashes.
        stopped: whether a callback, Ctrl-C or SIGTERM ended the run early.
        run_dir: directory of the run, if it has one.
        policy: an ``ActingPolicy``: ``policy.actions(obs)``.
        losses: of the last update.
    """

    step: int
    episodes: int
    mean_return: float | None
    version: int
    seconds: float
    steps_per_s: float
    weights_sha256: str
    stopped: bool
    run_dir: Path | None
    policy: Any = field(repr=False)
    losses: Mapping[str, float] = field(default_factory=dict)
