"""Environments that break under calls, or while they are built anew for one."""

from __future__ import annotations

import os
import signal

import gymnasium
import numpy as np


class Counter(gymnasium.Env):
    """Shows how many steps were made, and ten for every touch."""

    observation_space = gymnasium.spaces.Box(0, np.inf, (1,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self):
        self.steps = self.touches = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.look(), {}

    def step(self, action):
        self.steps += 1
        if action == 1:
            raise ValueError("one is a bad action")
        return self.look(), 0.0, False, False, {}

    def look(self):
        return np.array([self.steps + 10.0 * self.touches])

    def touch(self):
        self.touches += 1
        return self.touches

    def die(self):
        os.kill(os.getpid(), signal.SIGKILL)


class BuiltTwice(Counter):
    """Its process can build two of them and no more."""

    built = 0

    def __init__(self):
        super().__init__()
        BuiltTwice.built += 1
        if BuiltTwice.built > 2:
            raise OSError("no third one")


class Personal(Counter):
    """Every process shows a number of its own: no other can bring its episodes back."""

    def look(self):
        return super().look() + 1000.0 * os.getpid()

    def save_state(self):
        return str(self.steps).encode()

    def load_state(self, state):
        self.steps = int(state)
