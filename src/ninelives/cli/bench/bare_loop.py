"""The speed limit a pool is compared with: the same environment stepped in a bare loop, one process per core.

``BareLoop`` runs inside a worker, and nothing of the pool is in its loop. This process never builds an environment.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium

from ninelives import host
from ninelives.errors import WorkerError
from ninelives.pool.pool import Pool
from ninelives.spec.env import EnvSpec

ACTIONS = 1024
"""Sampled before the clock starts: choosing actions is not part of the environment's cost."""

LOOKS = 16
"""Steps between two readings of the clock."""


class BareLoop(gymnasium.Env[Any, Any]):
    """An environment that can also step itself in a loop."""

    def __init__(self, make_inner: Callable[[], Any]) -> None:
        self._make = make_inner
        self._inner = inner = make_inner()
        self.observation_space, self.action_space = inner.observation_space, inner.action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """The environment's own reset."""
        return self._inner.reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        """The environment's own step."""
        return self._inner.step(action)

    def close(self) -> None:
        """The environment's own close."""
        self._inner.close()

    def steps_per_s(self, seconds: float) -> float:
        """Step with random actions for this long; a reset counts as a step, as it is a row in a pool's batch too."""
        env, actions = self._inner, [self.action_space.sample() for _ in range(ACTIONS)]
        env.reset()
        steps, began = 0, time.perf_counter()
        while (took := time.perf_counter() - began) < seconds:
            for _ in range(LOOKS):
                _, _, terminated, truncated, _ = env.step(actions[steps % ACTIONS])
                steps += 1
                if terminated or truncated:
                    env.reset()
                    steps += 1
        return steps / took

    def copy_bytes(self) -> int:
        """Memory of one more copy in this process, after its first steps."""
        before = host.resident_bytes(os.getpid())
        copy = self._make()
        copy.reset()
        copy.step(self.action_space.sample())
        grown = host.resident_bytes(os.getpid()) - before
        copy.close()
        return max(0, grown)


def make(env: str, kwargs: Mapping[str, Any], modules: tuple[str, ...]) -> BareLoop:
    """Factory for the workers."""
    return BareLoop(EnvSpec(env, kwargs, modules).load())


class BareLoops:
    """One bare loop per process; idle processes cost no CPU time."""

    def __init__(self, spec: EnvSpec, processes: int) -> None:
        named = EnvSpec(f"{__name__}:make", {"env": spec.env, "kwargs": dict(spec.kwargs), "modules": spec.modules})
        self.pool = Pool(named, processes, workers=processes, call_timeout_s=600.0)

    def steps_per_s(self, seconds: float) -> float:
        """Run all loops at once and add up their speeds."""
        return float(sum(self.pool.call("steps_per_s", seconds)))

    def copy_bytes(self) -> int | None:
        """Memory of one more copy in a process; None if two copies in one process do not work."""
        try:
            return int(self.pool.call("copy_bytes", slots=[0])[0])
        except WorkerError:
            return None

    def close(self) -> None:
        """End the processes."""
        self.pool.close()
