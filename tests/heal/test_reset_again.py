"""A reset that two generations serve begins one episode, with the seed it has in an undisturbed run."""

from __future__ import annotations

import os
import signal

import gymnasium
import numpy as np
import pytest
from streams import pool_of

from ninelives import current_slot


class TellsSeed(gymnasium.Env):
    """Shows the seed of its episode. Slot 1 kills its worker in the second reset of all, once."""

    observation_space = gymnasium.spaces.Box(0, np.inf, (1,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, marker=None):
        self._marker, self._resets = marker, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._resets += 1
        is_victim = self._marker is not None and self._slot == 1 and self._resets == 2
        if is_victim and not os.path.exists(self._marker):
            open(self._marker, "x").close()
            os.kill(os.getpid(), signal.SIGKILL)
        self._seed = seed
        return np.array([float(seed)]), {}

    def step(self, action):
        return np.array([float(self._seed)]), 0.0, True, False, {}


class Seated(TellsSeed):
    def __init__(self, marker=None):
        super().__init__(marker)
        self._slot = current_slot().slot


@pytest.mark.parametrize("groups", [1, 2])
def test_a_reset_that_died_half_way_does_not_move_the_seeds_of_later_episodes(tmp_path, groups):
    def seeds(marker):
        seen = []
        with pool_of(lambda: Seated(marker), num_envs=2, workers=1, groups=groups, autoreset="disabled") as pool:
            pool.reset(seed=5)
            for _ in range(4):
                pool.step(np.zeros(2, np.int64))
                seen.append(pool.reset().obs[:, 0].tolist())
        return seen

    assert seeds(str(tmp_path / "died")) == seeds(None)
    assert (tmp_path / "died").exists()
