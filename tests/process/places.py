"""Environments that report on the process they live in. Imported by workers: keep it free of pytest."""

from __future__ import annotations

import os
import random

import gymnasium
import numpy as np

from ninelives.testing import CountingEnv


class Introspective(CountingEnv):
    """Answers questions about itself and its process."""

    def __init__(self, episode_steps=0, colour="black"):
        super().__init__(episode_steps)
        self.colour = colour
        self.drawn = (random.random(), float(np.random.random()))

    def pid(self):
        return os.getpid()

    def add(self, one, other=0):
        return self.slot + one + other

    def complain(self):
        raise KeyError("there is no such thing")

    def give_back_a_lock(self):
        import threading

        return threading.Lock()

    def crash(self):
        os.abort()


class Odd(CountingEnv):
    """Has another observation space in every slot."""

    def __init__(self):
        super().__init__()
        self.observation_space = gymnasium.spaces.Box(0, 1, (2 + self.slot,), np.float64)
