"""How the fault tests build pools, step them, and compare what they saw."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from dataclasses import dataclass, field
from itertools import product

import numpy as np

import ninelives
from ninelives.spec.context import current_slot
from ninelives.testing.counting import ACTIONS, CountingEnv, Referee
from ninelives.testing.faults import BREAKS

IS_FULL = os.environ.get("NINELIVES_FULL") == "1"

PHASES = ("import", "construct", "reset", "step", "close")
QUICK_METHODS = ("fork", "forkserver")
"""Start methods that these tables cross with faults; spawn has tests of its own, because each start takes a second."""

SLOTS, WORKERS = 4, 2
GUILTY, FELLOW, OTHERS = 1, 0, (2, 3)
SEED, STEPS, FAULT_STEP = 70, 8, 3
DEADLINE_S = 0.5
PROMPT_S = 2.0

SIGNALS = {"segfault": "SIGSEGV", "abort": "SIGABRT", "bus_error": "SIGBUS", "kill_self": "SIGKILL"}
EXITS = {"exit_zero": 0, "sys_exit": 7}


def crossed(phase, faults):
    """(fault, start method) in this phase: every fault once, the methods in turn.

    A fault's method alternates from phase to phase, so that over all phases every fault meets every method.
    ``NINELIVES_FULL=1`` gives the whole product.
    """
    if IS_FULL:
        return list(product(faults, QUICK_METHODS))
    order, shift = list(BREAKS), PHASES.index(phase)
    return [(fault, QUICK_METHODS[(order.index(fault) + shift) % 2]) for fault in faults]


def pool_of(env, **settings):
    """Two workers of two slots; restarts at once; faults show. Slots 0 and 1 share a worker."""
    chosen = {
        "num_envs": SLOTS,
        "workers": WORKERS,
        "on_fault": "cut",
        "backoff_s": 0.0,
        "preload": ("ninelives.testing.zoo",),
    }
    chosen |= settings
    if chosen.get("start_method") == "spawn":
        chosen["preload"] = ()
    return ninelives.Pool(env, chosen.pop("num_envs"), **chosen)


def deadlines(*phases):
    return {f"{phase}_timeout_s": DEADLINE_S for phase in phases}


def actions_at(step, slots=SLOTS):
    return (3 * step + np.arange(slots)) % ACTIONS


@dataclass
class Film:
    """Every batch of a short run."""

    referee: Referee
    batches: list = field(default_factory=list)
    slowest_s: float = 0.0

    def rows(self, name, slots):
        return np.array([getattr(batch, name)[list(slots)] for batch in self.batches])

    def faults(self):
        """(batch number, slot, fault), in order."""
        return [
            (t, slot, batch.infos["fault"][slot])
            for t, batch in enumerate(self.batches)
            if "fault" in batch.infos
            for slot in np.flatnonzero(batch.infos["_fault"])
        ]

    def equals(self, other, slots):
        names = ("obs", "reward", "terminated", "truncated", "valid")
        return all(np.array_equal(self.rows(name, slots), other.rows(name, slots)) for name in names)


def film(pool, steps=STEPS, seed=SEED):
    """Reset, then step; the referee objects to any row that cannot be true. Batch 0 is the reset's."""
    seen = Film(Referee(pool.num_envs))
    batch = _timed(seen, lambda: pool.reset(seed=seed))
    seen.referee.reset(batch)
    for step in range(1, steps + 1):
        actions = actions_at(step, pool.num_envs)
        seen.referee.step(actions, _timed(seen, lambda actions=actions: pool.step(actions)))
    return seen


def _timed(seen, do):
    began = time.monotonic()
    batch = do()
    seen.slowest_s = max(seen.slowest_s, time.monotonic() - began)
    seen.batches.append(batch)
    return batch


def of_kind(pool, kind):
    return [event for event in pool.events if isinstance(event, kind)]


def keeper_of(pool):
    """The parent of the workers."""
    with open(f"/proc/{pool.worker_pids[0]}/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[1])


def kill_keeper(pool):
    """Kill the parent of the workers, and reap the workers that die with it."""
    pids = pool.worker_pids
    os.kill(keeper_of(pool), signal.SIGKILL)
    bury(pids)


def bury(pids, within_s=5.0):
    """Wait for orphans. The test process adopts them (see the session fixture) and must reap them as init would."""
    end = time.monotonic() + within_s
    left = set(pids)
    while left and time.monotonic() < end:
        for pid in sorted(left):
            try:
                left -= {os.waitpid(pid, os.WNOHANG)[0]}
            except ChildProcessError:
                left -= {pid} if not os.path.exists(f"/proc/{pid}") else set()
        time.sleep(0.002)
    assert not left, f"{left} did not die"


class Curious(CountingEnv):
    """Reports where it lives, and how long its construction took by the machine's clock."""

    def __init__(self, diary=None, construct_s=0.0):
        super().__init__()
        began = time.monotonic()
        time.sleep(construct_s)
        if diary is not None:
            with open(diary, "a") as lines:
                lines.write(f"{self.slot} {began} {time.monotonic()}\n")
        self.place = current_slot()

    def whereabouts(self):
        return {
            "pid": os.getpid(), "cwd": os.getcwd(), "tmpdir": tempfile.gettempdir(), "TMPDIR": os.environ["TMPDIR"],
            "scratch": str(self.place.scratch), "launch_dir": str(self.place.launch_dir),
            "group": os.getpgrp(), "generation": self.place.generation,
        }  # fmt: skip


def intervals(diary):
    """(slot, began, ended) of every construction, by its beginning."""
    with open(diary) as lines:
        rows = [line.split() for line in lines]
    return sorted(((int(slot), float(began), float(ended)) for slot, began, ended in rows), key=lambda row: row[1])


def most_at_once(spans):
    """The largest number of constructions that overlap."""
    return max(sum(began <= at < ended for _, began, ended in spans) for _, at, _ in spans)
