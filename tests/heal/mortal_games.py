"""The games that are healed, and some that cannot be."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import gymnasium
import numpy as np
from gymnasium.wrappers import FrameStackObservation, TimeLimit

from ninelives import EnvSpec
from ninelives.testing import CountingEnv
from ninelives.testing.counting import ACTIONS, STEP
from ninelives.testing.faults import segfault

EPISODE = 30


def stacked_cartpole():
    """Wrappers with state of their own: the last four observations, and the steps until the end."""
    return TimeLimit(FrameStackObservation(gymnasium.make("CartPole-v1", disable_env_checker=True), 4), EPISODE)


@dataclass(frozen=True)
class Game:
    """An environment, the settings of the pool that plays it, and whether it takes long to start and to step."""

    env: object
    settings: dict = field(default_factory=dict)
    is_slow: bool = False


PONG = EnvSpec("ale_py:ALE/Pong-v5", {"repeat_action_probability": 0.25})
GAMES = {
    "cartpole": Game("CartPole-v1"),
    "pong": Game(PONG, {"preload": ["ale_py"]}, is_slow=True),
    "pong-replayed": Game(PONG, {"preload": ["ale_py"], "snapshot_every": None}, is_slow=True),
    "lander": Game("LunarLander-v3"),
    "stack": Game(stacked_cartpole),
}


class Moody(gymnasium.Env):
    """Every copy has a number of its own, from the operating system, and shows it from step ``shows_at`` on."""

    def __init__(self, shows_at=0):
        self.observation_space = gymnasium.spaces.Box(0, np.inf, (2,), np.float64)
        self.action_space = gymnasium.spaces.Discrete(ACTIONS)
        self._number, self._shows_at = int.from_bytes(os.urandom(4), "little") + 1, shows_at

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps = 0
        return self._look(), {}

    def step(self, action):
        self._steps += 1
        return self._look(), 0.0, False, False, {}

    def _look(self):
        return np.array([self._number if self._steps >= self._shows_at else 0, self._steps], np.float64)


POISON_STEP, POISON = 5, 3


class Poisonous(CountingEnv):
    """Dies of one action in one state, every time."""

    def step(self, action):
        if action == POISON and self._row[STEP] == POISON_STEP:
            segfault(None)
        return super().step(action)


class TextActions(CountingEnv):
    """Takes text for actions, which the journal does not record."""

    def __init__(self):
        super().__init__()
        self.action_space = gymnasium.spaces.Text(4)

    def step(self, action):
        return super().step(len(action))


class Reminiscent(gymnasium.Env):
    """Its ``reset`` leaves something: from step ``shows_at`` on, each row shows how many episodes it has had before.

    Episodes last for seven to ten steps, by their seed.
    """

    def __init__(self, shows_at=5):
        self.observation_space = gymnasium.spaces.Box(0, np.inf, (3,), np.float64)
        self.action_space = gymnasium.spaces.Discrete(ACTIONS)
        self.bonus, self._before, self._shows_at = 0, -1, shows_at

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._before += 1
        self._steps, self._last = 0, int(self.np_random.integers(7, 11))
        return self._look(), {}

    def step(self, action):
        self._steps += 1
        return self._look(), float(self.bonus), self._steps >= self._last, False, {}

    def _look(self):
        return np.array([self._before if self._steps >= self._shows_at else 0, self._steps, self._last], np.float64)
