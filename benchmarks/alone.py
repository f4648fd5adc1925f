"""What is measured of one system at a time, in fresh processes: start-up, idle cost, memory per added slot."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

from rounds import WARM_S, SystemFailedError, fresh

IDLE_S = 2.0
SMALL, LARGE = 8, 136
PEER_LARGE = 32
"""Gymnasium starts a process per environment; 32 of them are enough to see the slope."""


@dataclass
class Alone:
    """Medians and all values of the measurements of one system."""

    label: str
    start_s: list[float] = field(default_factory=list)
    idle_cores: list[float] = field(default_factory=list)
    slot_mb: float | None = None
    error: str = ""


def ninelives(repeats: int) -> Alone:
    """Ninelives on CartPole."""
    return _measured(Alone("Ninelives Pool"), "ninelives", repeats, LARGE, {"workers": 2})


def gymnasium_async(repeats: int) -> Alone:
    """The same of Gymnasium's own, for comparison."""
    return _measured(Alone("Gymnasium AsyncVectorEnv"), "gymnasium_async", repeats, PEER_LARGE, {})


def _measured(alone: Alone, system: str, repeats: int, large: int, fixed: dict[str, int]) -> Alone:
    try:
        for _ in range(repeats):
            start_s, cores = _start_and_idle(system)
            alone.start_s.append(start_s)
            alone.idle_cores.append(cores)
        alone.slot_mb = (_memory_mb(system, large, fixed) - _memory_mb(system, SMALL, fixed)) / (large - SMALL)
    except SystemFailedError as failure:
        alone.error = str(failure)
    return alone


def _start_and_idle(system: str) -> tuple[float, float]:
    child, start_s = fresh(system, "cartpole", SMALL, {}, WARM_S)
    try:
        return start_s, child.request("idle", seconds=IDLE_S)["cores"]
    finally:
        child.end()


def _memory_mb(system: str, num_envs: int, settings: dict[str, int]) -> float:
    """Median of three: a worker's heap grows in steps."""
    return statistics.median(_one_memory_mb(system, num_envs, settings) for _ in range(3))


def _one_memory_mb(system: str, num_envs: int, settings: dict[str, int]) -> float:
    child, _ = fresh(system, "cartpole", num_envs, settings, WARM_S)
    try:
        return float(child.request("memory")["pss_mb"])
    finally:
        child.end()
