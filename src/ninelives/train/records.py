"""What a training run tells its callbacks: frozen records of plain numbers. The pool's own are ``ninelives.events``."""

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
    """Everything is built and the first observation is there.

    Attributes:
        config: as resolved; ``n_envs`` is a number.
        run_dir: where the run is kept, if it is.
        pool: the live pool, for ``metrics()`` and the like; never step it.
        step: steps done before: 0, or where a resumed run goes on.
        workers: processes of the pool.
        threads: of the learner's arithmetic.
        device: where it is done.
        parameters: how many numbers the network learns.
        because: one sentence per choice that was made: workers, threads, overlap.
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
class Rollout:
    """A rollout was collected.

    Attributes:
        step: steps done so far, this rollout included.
        seconds: how long collecting took.
        steps_per_s: end to end since the rollout before: collecting, learning and everything else.
        version: of the weights that acted.
        valid_share: of its rows, how many are true transitions; what is missing was lost to faults.
        learned_share: of its rows, how many are learned from; reset rows of next-step autoreset are not.
        mean_return: over the last episodes (``log.window``); None before the first has ended.
        episodes: that have ended so far.
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
class Update:
    """The network learned from a rollout.

    Attributes:
        step: steps done so far.
        version: of the new weights.
        lag: how many versions old the acting weights were.
        seconds: how long learning took.
        losses: ``policy_loss``, ``value_loss``, ``entropy``, ``approx_kl``, ``clip_fraction``, ``explained_variance``,
            ``grad_norm``, ``learning_rate``, ``epochs`` and others.
        idle_collect: share of the time in which nothing was collected.
        idle_learn: share of the time in which nothing was learned.
    """

    step: int
    version: int
    lag: int
    seconds: float
    losses: Mapping[str, float]
    idle_collect: float
    idle_learn: float


@dataclass(frozen=True, kw_only=True)
class Episode:
    """An episode ended. ``seconds`` since the start of this process's run; ``took_s`` is the episode's own time."""

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
class Chosen:
    """A choice that had to be measured first, with the reason in words: ``overlap``."""

    name: str
    value: str
    because: str


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a run ended with.

    Attributes:
        step: steps done.
        episodes: that ended.
        mean_return: over the last episodes (``log.window``); None if none ended.
        version: of the weights.
        seconds: of this process's part of the run.
        steps_per_s: of this process's part of the run.
        weights_sha256: of the weights; equal runs have equal ones.
        stopped: whether a callback or Ctrl-C ended it before ``timesteps``.
        run_dir: where it is kept.
        policy: acts: ``policy.actions(obs)``.
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
