"""Environments for the tests of evaluation. Imports no torch, because workers import it."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium import spaces


class Walk(gymnasium.Env):
    """Episodes have random lengths; the action is the reward; an episode of length 3 is a success."""

    observation_space = spaces.Box(0, 100, (1,), np.float32)
    action_space = spaces.Discrete(3)

    def __init__(self, reports_success=True):
        self._reports_success = reports_success

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.length, self.at = int(self.np_random.choice([3, 30])), 0
        return np.array([self.at], np.float32), {}

    def step(self, action):
        self.at += 1
        over = self.at == self.length
        info = {"success": self.length == 3} if over and self._reports_success else {}
        return np.array([self.at], np.float32), float(action), over, False, info


class Silent(Walk):
    """A ``Walk`` without ``info["success"]``."""

    def __init__(self):
        super().__init__(reports_success=False)
