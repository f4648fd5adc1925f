"""How the healing tests step a pool and keep what each slot saw."""

from __future__ import annotations

import os
import signal
import time
from collections import defaultdict

import numpy as np

import ninelives
from ninelives.testing.counting import ACTIONS

SLOTS, SEED = 4, 70


def pool_of(env, **settings):
    """Two workers of two slots, started the quick way; restarts at once and as often as need be."""
    chosen = {
        "num_envs": SLOTS, "workers": 2, "start_method": "fork", "backoff_s": 0.0,
        "max_restarts": 10**6, "max_restarts_per_slot": 10**6,
    }  # fmt: skip
    chosen |= settings
    return ninelives.Pool(env, chosen.pop("num_envs"), **chosen)


def of_kind(pool, kind):
    return [event for event in pool.events if isinstance(event, kind)]


def kill_worker(pool, worker):
    os.kill(pool.worker_pids[worker], signal.SIGKILL)


def action_at(slot, step):
    """Never 3 in an even step, so that a test can give it on purpose."""
    return (2 * (3 * step + slot)) % (ACTIONS - 1)


class Streams:
    """Every slot's own rows, whatever batches they came in. Actions depend on slot and step alone."""

    def __init__(self, pool, action=action_at):
        self._pool, self._action = pool, action
        self.rows = defaultdict(list)
        self._see(pool.reset(seed=SEED))

    def step(self, times=1):
        for _ in range(times):
            self.send(range(self._pool.num_envs))
            self.recv()

    def step_until_reported(self, kind, count, within_s=10.0):
        """Step until there are so many events of a kind; they may come a moment after the rows."""
        end = time.monotonic() + within_s
        while len(seen := of_kind(self._pool, kind)) < count:
            assert time.monotonic() < end, f"{len(seen)} of {count} {kind.__name__}"
            self.step()
        return seen

    def send(self, slots):
        actions = [self._action(slot, len(self.rows[slot])) for slot in slots]
        self._pool.send(np.array(actions), list(slots))

    def recv(self):
        batch = self._pool.recv()
        self._see(batch)
        return batch.slots.tolist()

    def masked(self, slot):
        """Numbers of the slot's rows that are no true transitions."""
        return [number for number, row in enumerate(self.rows[slot]) if not row[-1]]

    def _see(self, batch):
        for i, slot in enumerate(batch.slots.tolist()):
            flags = bool(batch.terminated[i]), bool(batch.truncated[i]), bool(batch.valid[i])
            self.rows[slot].append((batch.obs[i].tolist(), float(batch.reward[i]), *flags))

    def agree_with(self, calm, slots=range(SLOTS)):
        """Whether these slots' rows are those of a run that was at least as long."""
        return all(self.rows[slot] == calm.rows[slot][: len(self.rows[slot])] for slot in slots)


def undisturbed(env, steps, action=action_at, **settings):
    """The streams of a run in which nothing happens."""
    with pool_of(env, **settings) as pool:
        streams = Streams(pool, action)
        streams.step(steps)
        return streams
