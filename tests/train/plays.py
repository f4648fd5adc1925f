"""Environments of the tests that interrupt training, in a module that is light to import: every worker does."""

from __future__ import annotations

import pickle

import gymnasium
import numpy as np
from gymnasium import spaces


class Tally(gymnasium.Env):
    """Dict observations, a mask, episodes of random length, and chance in every step: everything a state must hold."""

    def __init__(self):
        self.observation_space = spaces.Dict(
            {
                "numbers": spaces.Box(-np.inf, np.inf, (3,), np.float32),
                "picture": spaces.Box(0, 255, (8, 8, 1), np.uint8),
                "choice": spaces.Discrete(3),
            }
        )
        self.action_space = spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.length = 0, int(self.np_random.integers(3, 25))
        return self._seen(), {"action_mask": self._mask()}

    def step(self, action):
        assert self.mask[action], "an action that was not allowed"
        self.at += 1
        over = self.at >= self.length
        reward = float(self.np_random.normal() + (action == self.at % 4))
        seen = self._seen()
        return seen, reward, over and self.length % 2 == 0, over and self.length % 2 == 1, {"action_mask": self._mask()}

    def _seen(self):
        picture = self.np_random.integers(0, 256, (8, 8, 1), np.uint8)
        return {"numbers": self.np_random.normal(5, 3, 3).astype(np.float32), "picture": picture, "choice": self.at % 3}

    def _mask(self):
        self.mask = self.np_random.random(4) < 0.7
        self.mask[self.at % 4] = True
        return self.mask.copy()


class Saved(Tally):
    """The same, with snapshots."""

    def save_state(self):
        return pickle.dumps((self.at, self.length, self.mask, self.np_random))

    def load_state(self, state):
        self.at, self.length, self.mask, self.np_random = pickle.loads(state)
