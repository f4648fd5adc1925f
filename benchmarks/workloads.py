"""The environments every system is measured on, and the actions they are given.

Owns what one step costs. Imported by every worker of every system, so it must stay light: no peer, no Ninelives.
"""

from __future__ import annotations

import time
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

FRAME = (84, 84, 4)
BURN_NS = 1_000_000
SHORT_NS, LONG_NS = 500_000, 10_500_000
DECK = 100
"""Heavy-tail costs come from shuffled decks of so many steps: a window's mean is then 1 ms for every system alike."""

ACTIONS = {"cartpole": 2, "pong": 6}
TABLE_ROWS = 1024


class Null(gymnasium.Env[Any, Any]):
    """Does nothing: what is left is the cost of the system itself."""

    def __init__(self, shape: tuple[int, ...], dtype: type) -> None:
        high = 255 if dtype is np.uint8 else 1.0
        self.observation_space = spaces.Box(0, high, shape, dtype)
        self.action_space = spaces.Discrete(4)
        self._obs = np.zeros(shape, dtype)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Always the same frame."""
        return self._obs, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Always the same frame; an episode never ends."""
        return self._obs, 0.0, False, False, {}


class Burn(gymnasium.Env[Any, Any]):
    """Burns 1 ms of CPU time a step and returns a frame.

    The thread's CPU clock is used, so a step is the same amount of work on a core that is shared.
    """

    def __init__(self, horizon: int = 1000) -> None:
        self.observation_space = spaces.Box(0, 255, FRAME, np.uint8)
        self.action_space = spaces.Discrete(4)
        self._obs = np.zeros(FRAME, np.uint8)
        self._horizon, self._length = horizon, 0
        self._deck: list[int] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode; a seed also fixes the costs to come."""
        super().reset(seed=seed)
        self._length = 0
        return self._obs, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Work for as long as the next card says."""
        end = time.thread_time_ns() + self._next_cost()
        self._length += 1
        self._obs[0, 0, 0] = self._length & 255
        while time.thread_time_ns() < end:
            pass
        return self._obs, 1.0, False, self._length >= self._horizon, {}

    def _next_cost(self) -> int:
        return BURN_NS


class Tail(Burn):
    """Like ``Burn`` on average, but 95 % of the steps take 0.5 ms and 5 % take 10.5 ms."""

    def _next_cost(self) -> int:
        if not self._deck:
            costs = np.full(DECK, SHORT_NS)
            costs[: DECK // 20] = LONG_NS
            self._deck = self.np_random.permutation(costs).tolist()
        return self._deck.pop()


def make(name: str) -> gymnasium.Env[Any, Any]:
    """One environment of the named workload."""
    match name:
        case "cartpole":
            return gymnasium.make("CartPole-v1", disable_env_checker=True)
        case "burn":
            return Burn()
        case "tail":
            return Tail()
        case "null4":
            return Null((4,), np.float32)
        case "null84":
            return Null(FRAME, np.uint8)
        case "pong":
            return _pong()
        case "errand" | "errand_drawn" | "lantern" | "lantern_nes_py":
            import machines

            return machines.make(name)
    raise KeyError(name)


def _pong() -> gymnasium.Env[Any, Any]:
    import ale_py
    from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

    gymnasium.register_envs(ale_py)
    raw = gymnasium.make("ALE/Pong-v5", frameskip=1, repeat_action_probability=0.0, disable_env_checker=True)
    return FrameStackObservation(AtariPreprocessing(raw, frame_skip=4, screen_size=84, grayscale_obs=True), 4)


class Factory:
    """A picklable constructor of one workload, for systems that want a list of callables."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self) -> gymnasium.Env[Any, Any]:
        """Build one."""
        return make(self.name)


def actions(name: str, num_envs: int) -> npt.NDArray[np.int64]:
    """A table of random actions, one row a batch: drawing them must not be part of the measurement."""
    return np.random.default_rng(0).integers(0, ACTIONS.get(name, 4), (TABLE_ROWS, num_envs))
