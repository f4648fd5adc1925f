"""Observations of several parts are healed and compared like plain ones, also big ones whose steps are very short."""

from __future__ import annotations

import os
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from streams import SEED, SLOTS, kill_worker, of_kind, pool_of

from ninelives.events import HealFailed, SlotHealed

SIDE, STEPS, KILL_AT = 48, 40, 25
"""A picture of more than 1 KiB: such rows are not always digested whole."""


class Nested(gymnasium.Env):
    """A picture, a vector, and a number in a tuple. From step ``shows_at`` on the vector holds a number that every copy
    has of its own."""

    def __init__(self, shows_at=STEPS + 1):
        inner = spaces.Tuple([spaces.Box(0, np.inf, (2,), np.float64), spaces.Discrete(1000)])
        self.observation_space = spaces.Dict({"picture": spaces.Box(0, 255, (SIDE, SIDE), np.uint8), "words": inner})
        self.action_space = spaces.Discrete(4)
        self._number, self._shows_at = int.from_bytes(os.urandom(4), "little") + 1, shows_at

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps, self._picture = 0, self.np_random.integers(0, 256, (SIDE, SIDE), np.uint8)
        return self._look(), {}

    def step(self, action):
        self._steps += 1
        self._picture = np.roll(self._picture, int(action) + 1, axis=1)
        return self._look(), float(action), False, False, {}

    def _look(self):
        shown = self._number if self._steps >= self._shows_at else 0
        return {"picture": self._picture, "words": (np.array([shown, self._steps], np.float64), self._steps)}


def played(pool, kill_at=None):
    """All rows of a run of ``STEPS``, as bytes."""
    batches = [pool.reset(seed=SEED)]
    for step in range(STEPS):
        if step == kill_at:
            kill_worker(pool, 0)
        batches.append(pool.step(np.full(SLOTS, step % 4)))
    return [_bytes_of(batch) for batch in batches]


def _bytes_of(batch):
    vector, number = batch.obs["words"]
    parts = (batch.obs["picture"], vector, number, batch.reward, batch.terminated, batch.valid)
    return [part.tobytes() for part in parts]


@pytest.mark.parametrize("native", ["1", "0"])
def test_a_killed_worker_with_nested_rows_is_an_event_and_nothing_else(monkeypatch, native):
    monkeypatch.setenv("NINELIVES_NATIVE", native)
    with pool_of(Nested) as pool:
        calm = played(pool)
    with pool_of(Nested) as pool:
        rows = played(pool, KILL_AT)
        assert sorted(event.slots for event in of_kind(pool, SlotHealed)) == [(0,), (1,)]
        assert {event.replayed for event in of_kind(pool, SlotHealed)} <= {KILL_AT, KILL_AT + 1}
    assert rows == calm


@pytest.mark.parametrize("shows_at", [0, 10])
def test_a_difference_in_one_part_of_a_row_is_found_at_its_step(shows_at):
    with pool_of(partial(Nested, shows_at)) as pool:
        played(pool, KILL_AT)
        failed = of_kind(pool, HealFailed)
    assert {(event.slots, event.reason, event.step) for event in failed} == {
        ((0,), "diverged", shows_at),
        ((1,), "diverged", shows_at),
    }
