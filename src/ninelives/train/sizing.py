"""How many environments to train on: from cores, memory and the measured cost of a step, with the reason in words.

::

    one worker, one environment, half a second  ->  Measured  ->  Sizing(16, "2 cores, 5.0 ms a step: ...")

Only ``measure`` starts a process; the choice is pure arithmetic.
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass

import numpy as np
from gymnasium.vector.utils import batch_space

from ninelives import host
from ninelives.pool.pool import Pool
from ninelives.spec.env import EnvSpec
from ninelives.spec.plan import MEMORY_SHARE, WAITING_SHARE

BATCH_COST_S = 300e-6
"""What a batch costs the trainer whatever its size: a forward pass of a small network and the waking of workers."""

WORTH = 4.0
"""Environments should work so many times longer on a batch than the trainer thinks about it."""

LEAST_PER_CORE, MOST_PER_CORE = 4, 16
"""Fewer and a rollout sees few different episodes; more make it longer, and learning needs many rollouts."""

MEASURE_S = 0.5
"""Long enough for a hundred slow steps, short enough not to be felt."""


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


def choose_n_envs(spec: EnvSpec) -> Sizing:
    """Measure one copy of the environment here and choose."""
    return choose(measure(spec), host.cores(), host.free_bytes())


def choose(measured: Measured, cores: int, free_bytes: int) -> Sizing:
    """The number that keeps the workers busy, within what learning and memory allow."""
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
        reason += f"; {most} is the most that pays for learning here ({MOST_PER_CORE} a core)"
    elif wanted < least:
        reason += f"; {LEAST_PER_CORE} a core, so that a rollout sees different episodes"
    room = max(1, int(free_bytes * MEMORY_SHARE / max(measured.worker_bytes, 1)))
    if room < chosen:
        return Sizing(room, f"memory for {room} environments of {measured.worker_bytes / 1e6:.0f} MB")
    return Sizing(chosen, reason)


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
        # Cheap steps spend most of the time on their way to the worker and back: that is not the environment's waiting.
        waits = 1.0 if inside < BATCH_COST_S else share / max(min(1.0, inside * steps / took), share, 1e-9)
        return Measured(inside, float(np.clip(waits, 0.0, 1.0)), host.resident_bytes(pid))


def _busy_s(pid: int) -> float:
    """Seconds a process has run or wanted to run."""
    try:
        with open(f"/proc/{pid}/schedstat") as fields:
            running, queued, _ = map(int, fields.read().split())
            return (running + queued) * 1e-9
    except (OSError, ValueError):
        return float(os.times().elapsed)


def _short(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} us" if seconds < 1e-3 else f"{seconds * 1e3:.1f} ms"
