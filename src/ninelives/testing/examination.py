"""Measures an environment inside a worker: traces, buffer reuse, speed, memory, and what close leaves behind.

``ExaminedEnv`` takes the environment's place in a pool of one slot, so everything here runs under supervision: an
environment that hangs or crashes while it is examined becomes a typed error, not a hung test.
"""

from __future__ import annotations

import copy
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ninelives.host import private_bytes
from ninelives.spec.arrays import BadValueError, checked_leaf, split, tree_of, value_bytes
from ninelives.spec.context import current_slot, enter_slot
from ninelives.spec.env import EnvSpec
from ninelives.testing.leftovers import descendants

PARTS = ("observation", "reward", "terminated", "truncated")


@dataclass(frozen=True)
class RolloutTrace:
    """A seeded rollout: short digests per row (the first row is the reset's), and what was measured."""

    rows: tuple[tuple[str, ...], ...]
    findings: tuple[str, ...] = ()
    reuses_buffer: bool = False
    steps_per_s: float = 0.0
    rss_bytes: int = 0
    files: frozenset[str] = frozenset()
    """What the environment has left in its working directory."""


class RolloutMark:
    """How far a rollout has come, in a file that outlives the worker that writes it."""

    def __init__(self, path: str) -> None:
        self._path = path
        np.zeros(3, np.int64).tofile(path)

    def open(self) -> npt.NDArray[np.int64]:
        """Three words to write: whether a rollout is under way, its seed, the number of its step (0: a reset)."""
        return np.memmap(self._path, np.int64, "r+", shape=(3,))

    def read(self) -> str:
        """Where the last rollout stopped, in words; empty if it did not stop on its way."""
        rolling, seed, step = np.fromfile(self._path, np.int64).tolist()
        if not rolling:
            return ""
        return f"at step {step}, seed {seed}" if step else f"in reset(), seed {seed}"


class ExaminedEnv:
    """An environment with additional methods that examine it."""

    metadata: ClassVar[dict[str, Any]] = {}
    render_mode = None
    spec = None

    def __init__(self, spec: EnvSpec, mark: RolloutMark) -> None:
        self._load, self._context, self._mark = spec.load(), current_slot(), mark.open()
        self._cwd, self._before_bytes = os.getcwd(), private_bytes()
        self._before_files = frozenset(os.listdir(self._cwd))
        self._env = self._load()
        self.observation_space, self.action_space = self._env.observation_space, self._env.action_space

    def _make(self) -> Any:
        """Build a second environment in the same slot context, which its constructor may ask for."""
        enter_slot(self._context)
        try:
            return self._load()
        finally:
            enter_slot(None)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Reset the environment."""
        return self._env.reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        """Step the environment."""
        return self._env.step(action)

    def close(self) -> None:
        """Close the environment."""
        self._env.close()

    def trace(self, seed: int, steps: int) -> RolloutTrace:
        """Run one rollout and record it."""
        return self._with_files(_Rollout(self._env, seed, steps, self._mark).run(self._before_bytes))

    def trace_beside_another(self, seed: int, steps: int) -> RolloutTrace:
        """Roll out with a second copy stepping in between in the same process."""
        before = private_bytes()
        other = self._make()
        try:
            other.reset(seed=seed + 1)
            actions = copy.deepcopy(other.action_space)
            stir = partial(_stir, other, actions)
            return self._with_files(_Rollout(self._env, seed, steps, self._mark, between=stir).run(before))
        finally:
            other.close()

    def trace_in_new(self, seed: int, steps: int) -> RolloutTrace:
        """Close the environment, build a new one in its place, and roll out."""
        self._env.close()
        self._env = self._make()
        return self.trace(seed, steps)

    def _with_files(self, trace: RolloutTrace) -> RolloutTrace:
        return replace(trace, files=frozenset(os.listdir(self._cwd)) - self._before_files)

    def close_and_look(self) -> tuple[str, ...]:
        """Close twice and report what is left."""
        threads = threading.active_count()
        self._env.close()
        self._env.close()
        left = [f"close() leaves a process: {process}" for process in descendants()]
        if threading.active_count() >= threads > 1:
            left.append(f"close() leaves {threading.active_count() - 1} threads")
        self._env = self._make()  # the pool will close it again
        return tuple(left)


class _Rollout:
    """A stream of episodes with random actions drawn from the same seed."""

    def __init__(
        self,
        env: Any,
        seed: int,
        steps: int,
        mark: npt.NDArray[np.int64],
        between: Callable[[], None] = lambda: None,
    ) -> None:
        self._env, self._seed, self._steps, self._mark, self._between = env, seed, steps, mark, between
        # A copy: a space that belongs to the class is shared by all environments, and so is its generator.
        self._actions = copy.deepcopy(env.action_space)
        self._rows: list[tuple[str, ...]] = []
        self._findings: dict[str, None] = {}
        self._reuses = self._is_outside = self._is_nan = False

    def run(self, before_bytes: int) -> RolloutTrace:
        self._mark[:] = 1, self._seed, 0
        self._actions.seed(self._seed)
        obs = self._reset(self._seed)
        busy_s = 0.0
        for step in range(1, self._steps + 1):
            kept, kept_digest, action = obs, digest(obs), self._actions.sample()
            self._mark[2] = step
            began = time.perf_counter()
            obs, reward, terminated, truncated, info = self._env.step(action)
            busy_s += time.perf_counter() - began
            self._look_at_buffer(kept, kept_digest, obs)
            self._look_at(obs, info)
            self._look_at_reward(reward)
            self._rows.append((digest(obs), digest(float(reward)), str(bool(terminated)), str(bool(truncated))))
            if terminated or truncated:
                obs = self._reset(None)
            self._between()
        self._mark[0] = 0
        return RolloutTrace(
            tuple(self._rows), tuple(self._findings), self._reuses, self._steps / max(busy_s, 1e-9),
            max(0, private_bytes() - before_bytes),
        )  # fmt: skip

    def _reset(self, seed: int | None) -> Any:
        obs, info = self._env.reset(seed=seed)
        self._look_at(obs, info)
        self._rows.append((digest(obs), "reset", "", ""))
        return obs

    def _look_at(self, obs: Any, info: Any) -> None:
        space = self._env.observation_space
        if not self._is_outside and not space.contains(obs):
            self._is_outside = True
            self._find(f"an observation is not in observation_space: {misfit(space, obs)}")
        if not isinstance(info, Mapping):
            self._findings[f"info is a {type(info).__name__}, not a dict"] = None

    def _look_at_reward(self, reward: Any) -> None:
        if not self._is_nan and np.isnan(float(reward)):
            self._is_nan = True
            self._find("a reward is NaN, where a number is expected")

    def _find(self, words: str) -> None:
        """Report the first of its kind, with its place."""
        self._findings[f"{words} (step {self._mark[2]}, seed {self._seed})"] = None

    def _look_at_buffer(self, kept: Any, kept_digest: str, obs: Any) -> None:
        if digest(kept) != kept_digest or any(np.shares_memory(a, b) for a, b in _pairs(kept, obs)):
            self._reuses = True


def digest(value: Any) -> str:
    """A short hash of a value."""
    found = hashlib.blake2b(digest_size=8)
    for part in _parts(value):
        array = np.asarray(part)
        found.update(f"{array.dtype}{array.shape}".encode())
        found.update(repr(part).encode() if array.dtype == object else value_bytes(array).tobytes())
    return found.hexdigest()


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for key in sorted(value):
            yield from _parts(value[key])
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _parts(item)
    else:
        yield value


def _pairs(one: Any, other: Any) -> Iterator[tuple[Any, Any]]:
    for a, b in zip(_parts(one), _parts(other), strict=False):
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            yield a, b


def misfit(space: Any, obs: Any) -> str:
    """Which part of an observation does not fit its space: the part's name, what was found, what is expected."""
    try:
        for leaf, value in split(tree_of(space), obs):
            found = np.asarray(value)
            if leaf.dtype is not None:
                checked_leaf(leaf, value, "bounds")
                if not np.can_cast(found.dtype, np.dtype(leaf.dtype)):
                    return f"{leaf.name}: dtype {found.dtype} where the space declares {np.dtype(leaf.dtype)}"
    except BadValueError as error:
        return str(error)
    return f"{type(obs).__name__} where the space declares {space}"


def _stir(env: Any, actions: Any) -> None:
    """Step an environment and discard the result."""
    _, _, terminated, truncated, _ = env.step(actions.sample())
    if terminated or truncated:
        env.reset()


def first_difference(one: RolloutTrace, other: RolloutTrace) -> str | None:
    """A description of the first difference between two traces; None if there is none."""
    for i, (a, b) in enumerate(zip(one.rows, other.rows, strict=False)):
        if a != b:
            part = next(name for name, x, y in zip(PARTS, a, b, strict=True) if x != y)
            return f"{part} of row {i} (row 0 is the reset's)"
    return None
