"""Every system that is measured, behind one small interface.

Owns how each one is opened and stepped, through its public interface and with the settings its users get unless a cell
says otherwise. Nothing is imported before a system is opened, so one that is not installed fails alone.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from typing_extensions import override

from workloads import TABLE_ROWS, Factory, actions, make

LAST = TABLE_ROWS - 1
BARE_BLOCK = {"burn": 4, "tail": 4, "pong": 8, "errand": 4, "errand_drawn": 2, "lantern": 4, "lantern_nes_py": 2}
"""Steps of a bare loop between two looks at the clock; many where a step is short."""


class System(abc.ABC):
    """Something that steps environments.

    Attributes:
        ends: ``terminated`` and ``truncated`` arrays of the window; counted after it, because counting costs time.
        reset_takes_a_row: the row after an end holds a reset, not a step, and is not counted as one.
    """

    reset_takes_a_row = True

    def __init__(self, workload: str, num_envs: int) -> None:
        self.table = actions(workload, num_envs)
        self.ends: list[Any] = []

    @abc.abstractmethod
    def step(self, turn: int) -> int:
        """Send actions, take a batch; returns how many rows it had."""

    @abc.abstractmethod
    def close(self) -> None:
        """End everything that was started."""

    def resets(self) -> int:
        """How many rows since the last call were resets."""
        ended = sum(int(np.count_nonzero(flags)) for flags in self.ends) if self.reset_takes_a_row else 0
        self.ends.clear()
        return ended

    def notes(self) -> str:
        """What is worth knowing about how it was set up."""
        return ""

    def workers(self) -> int:
        """How many processes step the environments."""
        return 1


class Bare(System):
    """One environment in a plain loop, no system at all: two of these at once are the limit."""

    reset_takes_a_row = False

    def __init__(self, workload: str, num_envs: int) -> None:
        super().__init__(workload, BARE_BLOCK.get(workload, 64))
        self._env = make(workload)
        self._rows = self.table.tolist()
        self._env.reset(seed=0)

    @override
    def step(self, turn: int) -> int:
        step, reset = self._env.step, self._env.reset
        row = self._rows[turn & LAST]
        for action in row:
            _, _, terminated, truncated, _ = step(action)
            if terminated or truncated:
                reset()
        return len(row)

    @override
    def close(self) -> None:
        self._env.close()


class Ninelives(System):
    """``ninelives.Pool``; with a ``batch_size`` its first-ready batches."""

    def __init__(self, workload: str, num_envs: int, **settings: Any) -> None:
        super().__init__(workload, num_envs)
        import ninelives

        env = ninelives.EnvSpec("workloads:make", {"name": workload})
        self._pool = ninelives.Pool(env, num_envs, **settings)
        self._pool.reset(seed=0)
        self._episodes = 0
        self._partial = self._pool.batch_size < num_envs
        if self._partial:
            self._pool.send(self.table[0])

    @override
    def step(self, turn: int) -> int:
        row = self.table[turn & LAST]
        if self._partial:
            batch = self._pool.recv()
            self._pool.send(row[: len(batch)], batch.slots)
        else:
            batch = self._pool.step(row)
        return len(batch)

    @override
    def resets(self) -> int:
        """The workers count episodes themselves: nothing has to be kept per step."""
        before, self._episodes = self._episodes, sum(slot.episodes for slot in self._pool.metrics().slots)
        return self._episodes - before

    @override
    def notes(self) -> str:
        return f"{self._pool.workers} workers: {self._pool.workers_because}"

    @override
    def workers(self) -> int:
        return self._pool.workers

    @override
    def close(self) -> None:
        self._pool.close()


class Vector(System):
    """Anything with the interface of ``gymnasium.vector.VectorEnv``."""

    def __init__(self, workload: str, num_envs: int, env: Any) -> None:
        super().__init__(workload, num_envs)
        self._env, self._num_envs = env, num_envs
        env.reset(seed=0)

    @override
    def step(self, turn: int) -> int:
        _, _, terminated, truncated, _ = self._env.step(self.table[turn & LAST])
        self.ends += (terminated, truncated)
        return self._num_envs

    @override
    def close(self) -> None:
        self._env.close()


class StableBaselines(System):
    """A ``VecEnv`` of Stable-Baselines3; it resets within the step."""

    reset_takes_a_row = False

    def __init__(self, workload: str, num_envs: int, env: Any) -> None:
        super().__init__(workload, num_envs)
        self._env, self._num_envs = env, num_envs
        env.seed(0)
        env.reset()

    @override
    def step(self, turn: int) -> int:
        self._env.step(self.table[turn & LAST])
        return self._num_envs

    @override
    def close(self) -> None:
        self._env.close()


class Tianshou(System):
    """Tianshou's shared-memory vector environment; its users reset what has ended, as its collector does."""

    reset_takes_a_row = False

    def __init__(self, workload: str, num_envs: int, **settings: Any) -> None:
        super().__init__(workload, num_envs)
        from tianshou.env import ShmemVectorEnv

        self._env = ShmemVectorEnv([Factory(workload)] * num_envs, **settings)
        self._env.seed(0)
        self._env.reset()
        self._ready = np.arange(num_envs)

    @override
    def step(self, turn: int) -> int:
        ready = self._ready
        _, _, terminated, truncated, infos = self._env.step(self.table[turn & LAST][: len(ready)], ready)
        self._ready = np.array([info["env_id"] for info in infos])
        ended = self._ready[terminated | truncated]
        if len(ended):
            self._env.reset(ended)
        return len(infos)

    @override
    def close(self) -> None:
        self._env.close()


class EnvPool(System):
    """EnvPool steps its own C++ environments in threads: the same game, another program."""

    IDS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
        "cartpole": ("CartPole-v1", {}),
        "pong": ("Pong-v5", {"stack_num": 4, "frame_skip": 4, "repeat_action_probability": 0.0}),
    }

    def __init__(self, workload: str, num_envs: int, **settings: Any) -> None:
        super().__init__(workload, num_envs)
        import envpool

        self.table = self.table.astype(np.int32)
        name, kwargs = self.IDS[workload]
        self._env = envpool.make(name, env_type="gymnasium", num_envs=num_envs, **kwargs, **settings)
        self._partial = "batch_size" in settings
        if self._partial:
            self._env.async_reset()
        else:
            self._env.reset()

    @override
    def step(self, turn: int) -> int:
        row = self.table[turn & LAST]
        if self._partial:
            _, _, terminated, truncated, info = self._env.recv()
            self._env.send(row[: len(terminated)], info["env_id"])
        else:
            _, _, terminated, truncated, _ = self._env.step(row)
        self.ends += (terminated, truncated)
        return len(terminated)

    @override
    def close(self) -> None:
        self._env.close()


def _ninelives_vector(workload: str, num_envs: int, **settings: Any) -> System:
    import ninelives
    from ninelives.adapters.gymnasium import VectorEnv

    spec = ninelives.EnvSpec("workloads:make", {"name": workload})
    return Vector(workload, num_envs, VectorEnv(spec, num_envs, **settings))


def _gymnasium_async(workload: str, num_envs: int) -> System:
    from gymnasium.vector import AsyncVectorEnv

    return Vector(workload, num_envs, AsyncVectorEnv([Factory(workload)] * num_envs))


def _gymnasium_sync(workload: str, num_envs: int) -> System:
    from gymnasium.vector import SyncVectorEnv

    return Vector(workload, num_envs, SyncVectorEnv([Factory(workload)] * num_envs))


def _sb3_dummy(workload: str, num_envs: int) -> System:
    from stable_baselines3.common.vec_env import DummyVecEnv

    return StableBaselines(workload, num_envs, DummyVecEnv([Factory(workload)] * num_envs))


def _sb3_subproc(workload: str, num_envs: int) -> System:
    from stable_baselines3.common.vec_env import SubprocVecEnv

    return StableBaselines(workload, num_envs, SubprocVecEnv([Factory(workload)] * num_envs))


def _lockstep(workload: str, num_envs: int) -> System:
    from halves import Lockstep

    return Lockstep(workload, num_envs)


def _apart(workload: str, num_envs: int) -> System:
    from halves import Apart

    return Apart(workload, num_envs)


OPENERS: dict[str, Callable[..., System]] = {
    "bare": Bare,
    "lockstep": _lockstep,
    "apart": _apart,
    "ninelives": Ninelives,
    "ninelives_vector": _ninelives_vector,
    "gymnasium_async": _gymnasium_async,
    "gymnasium_sync": _gymnasium_sync,
    "sb3_dummy": _sb3_dummy,
    "sb3_subproc": _sb3_subproc,
    "tianshou": Tianshou,
    "envpool": EnvPool,
}
