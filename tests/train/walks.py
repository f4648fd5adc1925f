"""Environments of the evaluation's tests, in a module that is light to import: every worker does."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium import spaces


class Walk(gymnasium.Env):
    """Slots get episodes of different lengths; the action is the reward; an episode of length 3 is a success."""

    observation_space = spaces.Box(0, 100, (1,), np.float32)
    action_space = spaces.Discrete(3)

    def __init__(self, tells=True):
        self._tells = tells

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.length, self.at = int(self.np_random.choice([3, 30])), 0
        return np.array([self.at], np.float32), {}

    def step(self, action):
        self.at += 1
        over = self.at == self.length
        info = {"success": self.length == 3} if over and self._tells else {}
        return np.array([self.at], np.float32), float(action), over, False, info


class Silent(Walk):
    def __init__(self):
        super().__init__(tells=False)
