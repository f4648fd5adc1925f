"""Measures what one environment costs, so that the parent can choose how many workers are worth it.

The environment is rebuilt afterwards: no episode may begin with used state. Time in which another process had the core
is not counted, because it says nothing about the environment.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ninelives.host import private_bytes
from ninelives.spec.phase import Phase
from ninelives.spec.plan import WAITING_SHARE, Probe

QUICK_BUILD_S = 0.25
"""An environment that took longer to build is not worth building twice for a measurement."""

ACTIONS = 64
"""Different random actions that are enough to see a typical step."""

BUDGET_S = 0.02
"""Long enough for hundreds of cheap steps, too short to be noticed at the start."""

LONGEST_S = 0.2
"""How far the budget may grow on a machine on which other processes take the core."""

SLOW = "slow to build"
BROKE = "cost unknown: it broke in a trial step"


def unknown(why: str) -> Probe:
    """What is known of an environment that is not stepped."""
    return Probe(None, 1.0, private_bytes(), why)


def measure(env: Any, enter: Callable[[Phase], None] = lambda phase: None) -> Probe:
    """Step with random actions for a moment. Failures are not reported here: the real steps will show them.

    ``enter`` is told each phase, so that the deadlines of ``reset`` and ``step`` apply.
    """
    try:
        return _stepped(env, enter)
    except Exception:
        return unknown(BROKE)


def _stepped(env: Any, enter: Callable[[Phase], None]) -> Probe:
    actions = [env.action_space.sample() for _ in range(ACTIONS)]  # drawn first: sampling may cost more than a step
    enter(Phase.RESET)
    env.reset()
    enter(Phase.STEP)
    steps, watch = 0, _Stopwatch()
    while steps < 2 or watch.has_time_left():
        _, _, terminated, truncated, _ = env.step(actions[steps % ACTIONS])
        steps += 1
        if terminated or truncated:
            enter(Phase.RESET)
            env.reset()
        enter(Phase.STEP)
    step_s, cpu_share = watch.cost_of(steps)
    return Probe(step_s, cpu_share, private_bytes())


class _Stopwatch:
    """Measures from its making on, without the time in which this process waited for a core."""

    def __init__(self) -> None:
        self._queued, self._cpu, self._wall = _queued_s(), time.process_time(), time.perf_counter()
        self._until, self._latest = self._wall + BUDGET_S, self._wall + LONGEST_S

    def has_time_left(self) -> bool:
        """Whether the budget still lasts; it grows by the time that other processes took."""
        now = time.perf_counter()
        if now >= self._until:
            self._until = min(self._wall + BUDGET_S + _queued_s() - self._queued, self._latest)
        return now < self._until

    def cost_of(self, steps: int) -> tuple[float, float]:
        """Seconds of one step, and which share of them it used a core.

        A step that computes is measured by its CPU time, which no other process can lengthen.
        """
        cpu, wall = time.process_time() - self._cpu, time.perf_counter() - self._wall
        own = max(wall - (_queued_s() - self._queued), min(cpu, wall))
        share = min(1.0, cpu / own)
        return (min(cpu, own) if share >= WAITING_SHARE else own) / steps, share


def _queued_s() -> float:
    """Seconds this process wanted to run while another had the core; zero where the system does not say."""
    try:
        with open("/proc/self/schedstat") as fields:
            return int(fields.read().split()[1]) * 1e-9
    except (OSError, ValueError, IndexError):
        return 0.0
