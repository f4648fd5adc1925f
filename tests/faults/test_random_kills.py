"""Hundreds of SIGKILLs at random moments while the pool steps: no wrong row, nothing left.

``NINELIVES_FULL=1`` makes it 1,300.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from functools import partial

import numpy as np
import pytest
from scenes import IS_FULL, pool_of

from ninelives.testing import CountingEnv, Referee
from ninelives.testing.counting import ACTIONS

LIMIT_S = 50.0
SLOTS = 6
KILLS, KILLS_FIRST_READY = (1000, 300) if IS_FULL else (200, 100)


class Killer(threading.Thread):
    """Kills a random worker of a pool again and again, at moments that have nothing to do with the stepping.

    Every second time it waits for a true row first: on a fast machine all kills would else hit workers that start.
    """

    def __init__(self, pool, kills, rng, referee):
        super().__init__(daemon=True)
        self._pool, self._kills, self._rng, self._referee = pool, kills, rng, referee
        self._stop_now = threading.Event()
        self.killed = 0

    def run(self):
        dead = set()
        while self.killed < self._kills and not self._stop_now.is_set():
            living = [pid for pid in self._pool.worker_pids if pid is not None and pid not in dead]
            if living:
                dead.add(pid := self._rng.choice(living))
                with contextlib.suppress(ProcessLookupError):  # reaped in this very moment
                    os.kill(pid, signal.SIGKILL)
                    self.killed += 1
            time.sleep(self._rng.random() * 0.02)
            if self.killed % 2:
                self._await_true_row(self._referee.valid_rows)

    def _await_true_row(self, before):
        while self._referee.valid_rows == before and not self._stop_now.is_set():
            time.sleep(0.001)

    def stop(self):
        self._stop_now.set()
        self.join()


@pytest.mark.parametrize(
    ("kills", "batch_size", "episode_steps"),
    [(KILLS, None, 0), (KILLS_FIRST_READY, 2, 40)],
    ids=["full-batches", "first-ready"],
)
def test_killed_workers_never_cause_a_wrong_row(kills, batch_size, episode_steps):
    rng = random.Random(20)
    referee = Referee(SLOTS)
    with pool_of(
        partial(CountingEnv, episode_steps), num_envs=SLOTS, workers=3, batch_size=batch_size, start_method="fork",
        max_restarts=10 * kills, max_restarts_per_slot=10 * kills,
    ) as pool:  # fmt: skip
        referee.reset(pool.reset(seed=rng.randrange(1 << 30)))
        killer = Killer(pool, kills, rng, referee)
        killer.start()
        try:
            step_until_done(pool, referee, killer)
        finally:
            killer.stop()
    assert killer.killed == kills
    assert referee.valid_rows >= kills // 2
    assert referee.masked_rows >= kills // 4


def step_until_done(pool, referee, killer):
    """Step until every kill was made and all slots give valid rows again, then take what is under way."""
    draw = np.random.default_rng(5)
    actions = draw.integers(0, ACTIONS, SLOTS)
    pool.send(actions)
    end, calm = time.monotonic() + LIMIT_S, 0
    while calm < 3 * SLOTS:
        assert time.monotonic() < end, f"only {killer.killed} workers were killed in time"
        batch = pool.recv()
        referee.step(actions, batch)
        calm = calm + 1 if batch.valid.all() and not killer.is_alive() else 0
        actions[batch.slots] = draw.integers(0, ACTIONS, len(batch))
        pool.send(actions[batch.slots], batch.slots)
    for _ in range(SLOTS // pool.batch_size):
        referee.step(actions, pool.recv())
