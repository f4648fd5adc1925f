"""A long double of x86 has six bytes that mean nothing: rows that differ only there are equal."""

from __future__ import annotations

import os

import gymnasium
import numpy as np
from gymnasium import spaces
from streams import SEED, SLOTS, kill_worker, of_kind, pool_of

from ninelives.events import HealFailed, SlotHealed
from ninelives.spec.arrays import value_bytes
from ninelives.testing import check_env

STEPS, KILL_AT = 12, 8


def with_dirty_padding(numbers):
    """The same long doubles, with padding of chance."""
    dirty = np.frombuffer(bytearray(os.urandom(numbers.nbytes)), np.uint8).reshape(-1, numbers.itemsize).copy()
    used = value_bytes(numbers).reshape(numbers.size, -1)
    dirty[:, : used.shape[1]] = used
    return dirty.reshape(-1).view(np.longdouble).reshape(numbers.shape)


class Precise(gymnasium.Env):
    """Observes long doubles whose padding is never the same twice."""

    def __init__(self):
        self.observation_space = spaces.Box(-1e9, 1e9, (3,), np.longdouble)
        self.action_space = spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._state = self.np_random.random(3).astype(np.longdouble)
        return with_dirty_padding(self._state), {}

    def step(self, action):
        self._state = self._state / 3 + np.longdouble(int(action))
        return with_dirty_padding(self._state), 0.0, False, False, {}


def played(kill_at=None):
    with pool_of(Precise) as pool:
        rows = [pool.reset(seed=SEED).obs]
        for step in range(STEPS):
            if step == kill_at:
                kill_worker(pool, 0)
            batch = pool.step(np.full(SLOTS, step % 4))
            assert batch.valid.all()
            rows.append(batch.obs)
        return rows, of_kind(pool, SlotHealed), of_kind(pool, HealFailed)


def test_a_killed_worker_with_long_doubles_is_healed():
    undisturbed, *_ = played()
    rows, healed, failed = played(kill_at=KILL_AT)
    assert healed
    assert not failed
    assert all(np.array_equal(a, b) for a, b in zip(rows, undisturbed, strict=True))


def test_check_does_not_take_padding_for_chance():
    assert check_env(Precise, steps=20, start_methods=("fork",)).deterministic


def test_a_difference_in_the_last_bit_of_a_value_is_still_seen():
    one = np.ones(2, np.longdouble)
    other = np.nextafter(one, np.longdouble(2))
    assert value_bytes(one).tobytes() != value_bytes(other).tobytes()
    assert value_bytes(with_dirty_padding(one)).tobytes() == value_bytes(one).tobytes()
