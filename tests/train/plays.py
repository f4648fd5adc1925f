"""Environments for the tests that interrupt training. Imports no torch, because workers import it."""

from __future__ import annotations

import pickle

import gymnasium
import numpy as np
from gymnasium import spaces


class Tally(gymnasium.Env):
    """Dict observations, action masks, episodes of random length, randomness in each step: all a state must hold."""

    def __init__(self):
        self.observation_space = spaces.Dict(
            {
                "numbers": spaces.Box(-np.inf, np.inf, (3,), np.float32),
                "image": spaces.Box(0, 255, (8, 8, 1), np.uint8),
                "choice": spaces.Discrete(3),
            }
        )
        self.action_space = spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.length = 0, int(self.np_random.integers(3, 25))
        return self._observe(), {"action_mask": self._mask()}

    def step(self, action):
        assert self.mask[action], "a forbidden action"
        self.at += 1
        over = self.at >= self.length
        reward = float(self.np_random.normal() + (action == self.at % 4))
        obs = self._observe()
        return obs, reward, over and self.length % 2 == 0, over and self.length % 2 == 1, {"action_mask": self._mask()}

    def _observe(self):
        image = self.np_random.integers(0, 256, (8, 8, 1), np.uint8)
        return {"numbers": self.np_random.normal(5, 3, 3).astype(np.float32), "image": image, "choice": self.at % 3}

    def _mask(self):
        self.mask = self.np_random.random(4) < 0.7
        self.mask[self.at % 4] = True
        return self.mask.copy()


class Saved(Tally):
    """``Tally`` with snapshots."""

    def save_state(self):
        return pickle.dumps((self.at, self.length, self.mask, self.np_random))

    def load_state(self, state):
        self.at, self.length, self.mask, self.np_random = pickle.loads(state)
