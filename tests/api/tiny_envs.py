"""Tiny environments, each with one property that a vector environment must handle, and how batches are compared."""

from __future__ import annotations

import os
import signal
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

from ninelives.native import native_status


class Seeded(gymnasium.Env):
    """Episodes of a random length; subclasses say what is seen."""

    action_space: spaces.Space = spaces.Discrete(3)
    observation_space: spaces.Space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    longest = 9

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count, self.action = 0, None
        self.length = int(self.np_random.integers(2, self.longest))
        return self.see(), self.info()

    def step(self, action):
        self.count, self.action = self.count + 1, action
        over = self.count >= self.length
        terminated = over and self.length % 2 == 0
        return self.see(), float(self.np_random.normal()), terminated, over and not terminated, self.info()

    def see(self) -> Any:
        return np.array([self.count, self.np_random.normal()])

    def info(self) -> dict[str, Any]:
        return {}

    def is_native(self) -> bool:
        return native_status().active


class Nested(Seeded):
    """Dict and Tuple spaces inside each other, on both sides; what was done is seen."""

    action_space = spaces.Dict(
        push=spaces.Box(-1, 1, (2,), np.float32),
        keys=spaces.Tuple((spaces.Discrete(3, start=1), spaces.MultiBinary(2))),
    )
    observation_space = spaces.Dict(
        camera=spaces.Box(0, 255, (2, 3), np.uint8),
        body=spaces.Tuple((spaces.Box(-np.inf, np.inf, (), np.float32), spaces.MultiDiscrete([4, 3]))),
        done=action_space,
    )

    def see(self):
        done = self.action or {"push": np.zeros(2, np.float32), "keys": (1, np.zeros(2, np.int8))}
        return {
            "camera": self.np_random.integers(0, 256, (2, 3), dtype=np.uint8),
            "body": (np.float32(self.np_random.normal()), np.array([self.count % 4, self.count % 3])),
            "done": done,
        }


class Counting(Seeded):
    """Its observation is one whole number."""

    observation_space = spaces.Discrete(10, start=100)

    def see(self):
        return np.int64(100 + self.count)


class Chatty(Seeded):
    """Infos of every kind; most appear on some steps of some environments only."""

    def info(self):
        info: dict[str, Any] = {"count": self.count, "half": self.count / 2, "even": self.count % 2 == 0}
        if self.count == 0:
            info["born"] = {"length": self.length, "deep": {"seed": int(self.np_random.integers(100))}}
        if self.np_random.random() < 0.4:
            info["rare"] = self.np_random.normal(size=(2, 2)).astype(np.float32)
            info["word"] = f"word {self.count}"
        if self.np_random.random() < 0.3:
            info["nested"] = {"array": np.arange(self.count, self.count + 3), "text": "x" * self.count}
            info["list"], info["nothing"], info["scalar"] = [self.count], None, np.float32(self.count)
        return info


class OneBuffer(Seeded):
    """Returns the same array again and again, as emulators do."""

    def __init__(self):
        self.buffer = np.zeros(2)

    def see(self):
        self.buffer[:] = self.count, self.length
        return self.buffer


class Painter(Seeded):
    """Can be rendered, asked and changed."""

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 30}

    def __init__(self, render_mode=None, colour=7):
        self.render_mode, self.colour = render_mode, colour
        self.given: Any = None

    def reset(self, *, seed=None, options=None):
        self.given = options
        return super().reset(seed=seed, options=options)

    def render(self):
        return np.full((2, 2, 3), self.colour + self.count, np.uint8)

    def add(self, first, second=0):
        return self.colour + first + second

    def refuse(self):
        raise ValueError("not this one")


class Mortal(Seeded):
    """Dies by the action 2."""

    longest = 500

    def step(self, action):
        if action == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


class Echo(gymnasium.Env):
    """Shows what was done: the observation is the action, alone or beside a counter."""

    def __init__(self, space: spaces.Space, beside: bool):
        self.action_space = space
        self.observation_space = spaces.Dict(echo=space, count=spaces.Discrete(100)) if beside else space
        self.beside = beside

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.action_space.seed(seed)
        self.count = 0
        return self.see(self.action_space.sample()), {}

    def step(self, action):
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        self.count += 1
        return self.see(action), 0.0, False, False, {}

    def see(self, value):
        return {"echo": value, "count": self.count} if self.beside else value


def assert_same(ours: Any, theirs: Any, where: str = "it") -> None:
    """Equal in structure, type, dtype and every bit of value."""
    if isinstance(theirs, dict):
        assert isinstance(ours, dict), f"{where} is {type(ours)}"
        assert set(ours) == set(theirs), where
        for key in theirs:
            assert_same(ours[key], theirs[key], f"{where}[{key!r}]")
    elif isinstance(theirs, tuple | list):
        assert type(ours) is type(theirs), f"{where} is {type(ours)}, not {type(theirs)}"
        assert len(ours) == len(theirs), where
        for i, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(one, other, f"{where}[{i}]")
    elif isinstance(theirs, np.ndarray) and theirs.dtype.hasobject:
        assert ours.shape == theirs.shape, where
        assert_same(list(ours.flat), list(theirs.flat), where)
    elif isinstance(theirs, np.ndarray | np.generic):
        assert ours.dtype == theirs.dtype, f"{where} has dtype {ours.dtype}, not {theirs.dtype}"
        np.testing.assert_array_equal(ours, theirs, where, strict=True)
    else:
        assert type(ours) is type(theirs), where
        assert ours == theirs, where
