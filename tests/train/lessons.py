"""Small environments that each need one ability of the learner. Imports no torch, because workers import it."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium import spaces


class Recall(gymnasium.Env):
    """A cue is shown once; after some blank steps the last action must repeat it. Without memory: 0.5 on average."""

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
    """A ball falls down a field of pixels, and the paddle must be below it. Only the image shows where they are."""

    SIZE = 8
    observation_space = spaces.Box(0, 255, (SIZE, SIZE, 1), np.uint8)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._row, self._column = 0, int(self.np_random.integers(self.SIZE))
        self._paddle = int(self.np_random.integers(self.SIZE))
        return self._image(), {}

    def step(self, action):
        self._paddle = min(max(self._paddle + int(action) - 1, 0), self.SIZE - 1)
        self._row += 1
        is_down = self._row == self.SIZE - 1
        reward = (1.0 if abs(self._paddle - self._column) <= 1 else -1.0) if is_down else 0.0
        return self._image(), reward, is_down, False, {}

    def _image(self):
        image = np.zeros((self.SIZE, self.SIZE, 1), np.uint8)
        image[self._row, self._column] = 255
        image[-1, self._paddle] = 128
        return image


class Locked(gymnasium.Env):
    """One of five doors is open, and the info says which; trying another one raises an exception."""

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
    """A reward of 1 in each step and a constant observation; episodes are truncated or terminated after a few steps."""

    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, length=4, terminates=False):
        self._length, self._terminates = length, terminates

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._step = 0
        return np.ones(1, np.float32), {}

    def step(self, action):
        self._step += 1
        over = self._step == self._length
        return np.ones(1, np.float32), 1.0, over and self._terminates, over and not self._terminates, {}


class Odd(gymnasium.Env):
    """Any pair of spaces: observations are sampled from one, actions must lie in the other."""

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
    """Observations count episodes and steps; episodes of a fixed length are truncated or terminated."""

    observation_space = spaces.Box(0, 1e6, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, length=3, truncates=True):
        self._length, self._truncates, self._episode = length, truncates, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._episode, self._step = self._episode + 1, 0
        return self._row(), {}

    def step(self, action):
        self._step += 1
        over = self._step == self._length
        return self._row(), float(self._step), over and not self._truncates, over and self._truncates, {}

    def _row(self):
        return np.array([self._episode, self._step], np.float32)


class Aim(gymnasium.Env):
    """Ten times: answer the number that is shown, in other units. Random answers get a return of about -10."""

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


class Chatty(gymnasium.Env):
    """Gives a number with every step, and something that no worker would send."""

    observation_space, action_space = spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(2)

    def __init__(self, secret=None):
        self._secret = {} if secret is None else {"secret": secret}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {"x": 0.5, **self._secret}

    def step(self, action):
        return np.zeros(2, np.float32), 1.0, False, False, {"x": 1.5, **self._secret}
