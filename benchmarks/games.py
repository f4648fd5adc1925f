"""Small games that show one thing each: whether a network sees, whether it remembers, whether waiting is hidden.

Owns the rules. Imported by every worker of every system, so it must stay light: no peer, no Ninelives, no torch.
"""

from __future__ import annotations

import time
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

GRID, SCALE = 10, 4
"""Cells of the board, and pixels of a cell: a Nature CNN takes no less than 36 pixels."""

BALLS = 4
CUES = 4
SLOW_S = 0.005


class Catch(gymnasium.Env[Any, Any]):
    """Catch falling balls; seen as pixels, of this frame and the one before, since balls drift and bounce off walls.

    A ball caught is +1, a ball missed -1, and an episode has four balls: from -4 to 4, about -1.6 by chance.
    """

    def __init__(self) -> None:
        side = GRID * SCALE
        self.observation_space = spaces.Box(0, 255, (side, side, 2), np.uint8)
        self.action_space = spaces.Discrete(3)
        self._frames = np.zeros((GRID, GRID, 2), np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """The paddle stands in the middle, the first ball starts."""
        super().reset(seed=seed)
        self._paddle, self._left = GRID // 2, BALLS
        self._serve()
        self._frames[:] = 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Move the paddle by a cell, let the ball fall by one."""
        self._paddle = int(np.clip(self._paddle + int(action) - 1, 1, GRID - 2))
        self._row += 1
        self._column += self._drift
        if not 0 <= self._column < GRID:
            self._drift = -self._drift
            self._column += 2 * self._drift
        reward = 0.0
        if self._row == GRID - 1:
            reward = 1.0 if abs(self._column - self._paddle) <= 1 else -1.0
            self._left -= 1
            self._serve()
        return self._seen(), reward, self._left == 0, False, {}

    def _serve(self) -> None:
        self._row, self._column = 0, int(self.np_random.integers(GRID))
        self._drift = int(self.np_random.integers(-1, 2))

    def _seen(self) -> npt.NDArray[np.uint8]:
        self._frames[..., 0] = self._frames[..., 1]
        now = self._frames[..., 1]
        now[:] = 0
        now[self._row, self._column] = 255
        now[GRID - 1, self._paddle - 1 : self._paddle + 2] = 128
        return self._frames.repeat(SCALE, axis=0).repeat(SCALE, axis=1)


class Recall(gymnasium.Env[Any, Any]):
    """A cue is shown once, then comes a wait of random length, then the cue must be named: 1 if right, else 0.

    Whoever sees only the present is right once in four.
    """

    def __init__(self, least: int = 2, most: int = 8) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (CUES + 1,), np.float32)
        self.action_space = spaces.Discrete(CUES)
        self._least, self._most = least, most

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Show the cue."""
        super().reset(seed=seed)
        self._cue = int(self.np_random.integers(CUES))
        self._wait = int(self.np_random.integers(self._least, self._most + 1))
        return self._seen(self._cue), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Nothing counts before the question is asked."""
        if self._wait == 0:
            return self._seen(), float(action == self._cue), True, False, {}
        self._wait -= 1
        return self._seen(CUES if self._wait == 0 else None), 0.0, False, False, {}

    def _seen(self, lamp: int | None = None) -> npt.NDArray[np.float32]:
        seen = np.zeros(CUES + 1, np.float32)
        if lamp is not None:
            seen[lamp] = 1.0
        return seen


class Slow(gymnasium.Env[Any, Any]):
    """A simulator that lets one wait 5 ms a step, as one does that runs on another machine, card or process.

    It waits and does not work: two cores cannot hide work of two cores.
    """

    def __init__(self, seconds: float = SLOW_S, horizon: int = 200) -> None:
        self.observation_space = spaces.Box(0, 255, (42, 42, 2), np.uint8)
        self.action_space = spaces.Discrete(4)
        self._seconds, self._horizon = seconds, horizon

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """A frame of noise."""
        super().reset(seed=seed)
        self._length = 0
        self._noise = self.np_random.integers(0, 256, self.observation_space.shape, np.uint8)
        return self._noise.copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Wait, then show the frame moved by a row."""
        time.sleep(self._seconds)
        self._length += 1
        self._noise = np.roll(self._noise, 1, axis=0)
        return self._noise.copy(), float(action == 0), False, self._length >= self._horizon, {}


GAMES = {"catch": Catch, "recall": Recall, "slow": Slow}


def make(name: str, **settings: Any) -> gymnasium.Env[Any, Any]:
    """One of the games above, or any environment of Gymnasium, by its name."""
    return GAMES[name](**settings) if name in GAMES else gymnasium.make(name, disable_env_checker=True, **settings)


class Factory:
    """A picklable constructor of one game, for systems that want callables."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self) -> gymnasium.Env[Any, Any]:
        """Build one."""
        return make(self.name)
