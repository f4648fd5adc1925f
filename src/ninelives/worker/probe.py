"""Measures what one environment costs, so that the parent can choose how many workers are worth it.

Stepped only if it was quick to build, because it is rebuilt afterwards: no episode may begin with used state.
"""

from __future__ import annotations

import time
from typing import Any

from ninelives.host import private_bytes
from ninelives.spec.plan import Probe

QUICK_BUILD_S = 0.25
"""An environment that took longer to build is not worth building twice for a measurement."""

ACTIONS = 64
"""Different random actions that are enough to see a typical step."""

BUDGET_S = 0.02
"""Long enough for hundreds of cheap steps, too short to be noticed at the start."""


def measure(env: Any, build_s: float) -> Probe:
    """Step with random actions for a moment. Failures are not reported here: the real steps will show them."""
    if build_s > QUICK_BUILD_S:
        return Probe(None, 1.0, private_bytes())
    try:
        return _stepped(env)
    except Exception:
        return Probe(None, 1.0, private_bytes())


def _stepped(env: Any) -> Probe:
    actions = [env.action_space.sample() for _ in range(ACTIONS)]  # drawn first: sampling may cost more than a step
    env.reset()
    steps, wall, busy = 0, time.perf_counter(), _busy_s()
    while steps < 2 or time.perf_counter() - wall < BUDGET_S:
        _, _, terminated, truncated, _ = env.step(actions[steps % ACTIONS])
        steps += 1
        if terminated or truncated:
            env.reset()
    took = time.perf_counter() - wall
    return Probe(took / steps, min(1.0, (_busy_s() - busy) / took), private_bytes())


def _busy_s() -> float:
    """Seconds this process ran or wanted to run: waiting for a busy core is not waiting for something outside."""
    try:
        with open("/proc/self/schedstat") as fields:
            running, queued, _ = map(int, fields.read().split())
            return (running + queued) * 1e-9
    except OSError:
        return time.process_time()
