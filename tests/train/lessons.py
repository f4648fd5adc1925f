"""Small environments that each teach one thing, for the tests of the learner. Imports no torch: workers import it."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium import spaces


class Recall(gymnasium.Env):
    """A cue is shown once; after some blank steps the last action must repeat it. Without a memory: 0.5 on average."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, delay=4):
        self._delay = delay

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._cue, self._step = int(self.np_random.integers(2)), 0
        return np.array([2 * self._cue - 1, 0], np.float32), {}

    def step(self, action):
        self._step += 1
        is_last = self._step > self._delay
        reward = float(is_last and action == self._cue)
        return np.array([0, self._step == self._delay], np.float32), reward, is_last, False, {}


class Catch(gymnasium.Env):
    """A ball falls down a field of pixels; the paddle must be below it. Only the picture tells where either is."""

    SIZE = 8
    observation_space = spaces.Box(0, 255, (SIZE, SIZE, 1), np.uint8)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._row, self._column = 0, int(self.np_random.integers(self.SIZE))
        self._paddle = int(self.np_random.integers(self.SIZE))
        return self._picture(), {}

    def step(self, action):
        self._paddle = min(max(self._paddle + int(action) - 1, 0), self.SIZE - 1)
        self._row += 1
        is_down = self._row == self.SIZE - 1
        reward = (1.0 if abs(self._paddle - self._column) <= 1 else -1.0) if is_down else 0.0
        return self._picture(), reward, is_down, False, {}

    def _picture(self):
        picture = np.zeros((self.SIZE, self.SIZE, 1), np.uint8)
        picture[self._row, self._column] = 255
        picture[-1, self._paddle] = 128
        return picture


class Locked(gymnasium.Env):
    """One of five doors is open, and the info says which; whoever tries another one is thrown out."""

    DOORS = 5
    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Discrete(DOORS, start=10)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._step = 0
        return np.zeros(1, np.float32), self._info()

    def step(self, action):
        self._step += 1
        if int(action) - 10 != self._open:
            raise RuntimeError(f"door {action} is locked")
        return np.zeros(1, np.float32), 1.0, self._step == 20, False, self._info()

    def _info(self):
        self._open = int(self.np_random.integers(self.DOORS))
        return {"action_mask": (np.arange(self.DOORS) == self._open).astype(np.int8)}


class Endless(gymnasium.Env):
    """One reward a step for ever, and nothing to see; it is cut after a few steps, which its value must not know."""

    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, cut_after=4, is_end=False):
        self._cut_after, self._is_end = cut_after, is_end

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._step = 0
        return np.ones(1, np.float32), {}

    def step(self, action):
        self._step += 1
        over = self._step == self._cut_after
        return np.ones(1, np.float32), 1.0, over and self._is_end, over and not self._is_end, {}


class Odd(gymnasium.Env):
    """Any pair of spaces: observations are drawn from one, actions must lie in the other."""

    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        self._step = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        self._step += 1
        return self.observation_space.sample(), 1.0, False, self._step == 5, {}


class Count(gymnasium.Env):
    """Observations count the steps of an episode from slot-dependent beginnings; episodes end or are cut in turn."""

    observation_space = spaces.Box(0, 1e6, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, length=3, cut=True):
        self._length, self._cut, self._episode = length, cut, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._episode, self._step = self._episode + 1, 0
        return self._row(), {}

    def step(self, action):
        self._step += 1
        over = self._step == self._length
        return self._row(), float(self._step), over and not self._cut, over and self._cut, {}

    def _row(self):
        return np.array([self._episode, self._step], np.float32)


class Aim(gymnasium.Env):
    """Ten times: say the number that is shown, in other units. Whoever guesses at random gets about -10."""

    observation_space = spaces.Box(-2000, 2000, (1,), np.float32)
    action_space = spaces.Box(-2, 2, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._step = 0
        return self._target(), {}

    def step(self, action):
        self._step += 1
        reward = -abs(float(action[0]) - self._wanted)
        return self._target(), reward, False, self._step == 10, {}

    def _target(self):
        self._wanted = float(self.np_random.uniform(-1, 1))
        return np.array([700 + 1000 * self._wanted], np.float32)
