"""How many environments to train on, and with how many threads: each number with its reason in words.

::

    n_envs="auto"   one worker, one environment, half a second  ->  Measured  ->  Sizing(16, "2 cores, 5.0 ms a step")
    resumed run     the number of its checkpoint, without measuring

The only owner of these questions, for ``ninelives train``, ``ninelives.train.train`` and ``ninelives benchmark
--train``. Only ``measure`` starts a process; every choice is pure arithmetic.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from gymnasium.vector.utils import batch_space

from ninelives import host
from ninelives.pool.pool import Pool
from ninelives.spec.env import EnvSpec
from ninelives.spec.plan import MEMORY_SHARE, WAITING_SHARE
from ninelives.train.config.classes import TrainConfig

BATCH_COST_S = 300e-6
"""What a batch costs the trainer whatever its size: a forward pass of a small network, and waking the workers."""

WORTH = 4.0
"""A batch should keep the environments busy this many times longer than the trainer."""

LEAST_PER_CORE, MOST_PER_CORE = 4, 16
"""With fewer, a rollout covers few different episodes; with more, it gets long, and learning needs many rollouts."""

MEASURE_S = 0.5
"""Long enough for a hundred slow steps, short enough not to be noticed."""

AS_GOOD = 0.97
"""Measured speeds within this share of the fastest count as equal."""

SMALL = 1e9
"""Operations of a gradient step below which a second thread costs more than it gains, far more on a busy machine."""


@dataclass(frozen=True)
class Measured:
    """What one environment costs."""

    step_s: float
    cpu_share: float
    worker_bytes: int


@dataclass(frozen=True)
class Sizing:
    """A number of environments and the reason in words."""

    n_envs: int
    because: str


@dataclass(frozen=True)
class Decision:
    """A number that a run chose by itself, and the reason in words."""

    value: int
    because: str


def with_n_envs(config: TrainConfig, resumed: int | None = None) -> tuple[TrainConfig, tuple[str, ...]]:
    """The configuration with a number of environments, and the reason if it was chosen here.

    Args:
        config: the run; a number in ``n_envs`` is kept.
        resumed: the number of the run that is resumed; it takes the place of ``"auto"`` without measuring.
    """
    if config.n_envs != "auto":
        return config, ()
    if resumed is not None:
        return replace(config, n_envs=resumed), (f"n_envs={resumed}: as in the run that is resumed",)
    sizing = choose_for(config.env_spec)
    n_envs = sizing.n_envs + sizing.n_envs % 2 if config.pool.split == 2 else sizing.n_envs
    return replace(config, n_envs=n_envs), (f"n_envs={n_envs}: {sizing.because}",)


def choose_for(spec: EnvSpec) -> Sizing:
    """Measure one copy of the environment and choose a number for this machine."""
    return choose(measure(spec), host.cores(), host.free_bytes())


def choose(measured: Measured, cores: int, free_bytes: int) -> Sizing:
    """The number that keeps the workers busy, within the limits of learning and memory."""
    least, most = LEAST_PER_CORE * cores, MOST_PER_CORE * cores
    cost = f"{_short(measured.step_s)} a step"
    if measured.cpu_share < WAITING_SHARE:
        wanted = math.ceil(cores / max(measured.cpu_share, 0.02))
        reason = f"a step takes {_short(measured.step_s)} and waits {1 - measured.cpu_share:.0%} of it"
    else:
        wanted = math.ceil(WORTH * BATCH_COST_S * cores / max(measured.step_s, 1e-9))
        reason = f"{cores} cores, {cost}"
    chosen = math.ceil(min(max(wanted, least), most) / cores) * cores
    if wanted > most:
        reason += f"; limited to {MOST_PER_CORE} a core, because more would make rollouts too long"
    elif wanted < least:
        reason += f"; at least {LEAST_PER_CORE} a core, so that a rollout covers different episodes"
    room = max(1, int(free_bytes * MEMORY_SHARE / max(measured.worker_bytes, 1)))
    if room < chosen:
        return Sizing(room, f"memory for {room} environments of {measured.worker_bytes / 1e6:.0f} MB")
    return Sizing(chosen, reason)


def fewest_as_good(steps_per_s: Mapping[int, float]) -> int:
    """Of numbers of environments and their measured speeds, the smallest that is about as fast as the fastest.

    Fewer environments mean shorter rollouts, so that a policy is updated more often.
    """
    fastest = max(steps_per_s.values())
    return min(n_envs for n_envs, speed in steps_per_s.items() if speed >= AS_GOOD * fastest)


def operations(config: TrainConfig, slots: int, per_row: int) -> float:
    """Of one gradient step: forward, and twice as much backward; each a multiplication and an addition."""
    return 6.0 * per_row * config.ppo.n_steps * slots / config.ppo.minibatches


def choose_threads(config: TrainConfig, work: float, cores: int) -> Decision:
    """Torch threads of the learner. Never measured, so that results do not depend on timing.

    Args:
        config: the run.
        work: operations of one gradient step.
        cores: of this machine.
    """
    if config.threads != "auto":
        return Decision(config.threads, f"threads={config.threads}: as configured")
    if work < SMALL or cores == 1:
        return Decision(1, f"threads=1: {work / 1e6:,.0f} million operations a gradient step are too few for more")
    if config.overlap == "on":
        threads = max(1, cores - 1)
        return Decision(threads, f"threads={threads}: all cores but one, which collects at the same time")
    return Decision(cores, f"threads={cores}: the workers are idle while the learner learns")


def measure(spec: EnvSpec, seconds: float = MEASURE_S) -> Measured:
    """Step one environment in one worker with random actions."""
    with Pool(spec, 1, workers=1) as pool:
        space = batch_space(pool.action_space, 1)
        space.seed(0)
        pid = pool.worker_pids[0] or 0
        pool.reset(seed=0)
        busy, began, steps = _busy_s(pid), time.perf_counter(), 0
        while steps < 2 or time.perf_counter() - began < seconds:
            pool.step(space.sample())
            steps += 1
        took = time.perf_counter() - began
        slot = pool.metrics().slots[0]
        inside = max(slot.step_p50_s, 1e-9)
        share = min(1.0, (_busy_s(pid) - busy) / took)
        # Of a cheap step, most time is spent on the way to the worker and back: the environment itself does not wait.
        waits = 1.0 if inside < BATCH_COST_S else share / max(min(1.0, inside * steps / took), share, 1e-9)
        return Measured(inside, float(np.clip(waits, 0.0, 1.0)), host.resident_bytes(pid))


def _busy_s(pid: int) -> float:
    """Seconds in which a process ran or was ready to run."""
    try:
        with open(f"/proc/{pid}/schedstat") as fields:
            running, queued, _ = map(int, fields.read().split())
            return (running + queued) * 1e-9
    except (OSError, ValueError):
        return float(os.times().elapsed)


def _short(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} us" if seconds < 1e-3 else f"{seconds * 1e3:.1f} ms"
