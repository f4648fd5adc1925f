"""Faults that come like weather: to any worker at any moment, never twice to the same step of the same episode.

::

    kill       SIGKILL, as the kernel sends when memory is short
    stop       SIGSTOP: the process is alive and never answers again
    segfault   a bad read in native code, inside the environment
    exception  an exception, inside the environment

The first two are signals to a worker. The others are a flag in a shared file: the environment clears it and breaks at
its next step or reset, in play or in a replay.

A step that is hit twice would rightly be taken for poison. So an environment that was broken at a step leaves the next
flag for a later one, and a worker is hit only so often before its slots have made a few rows.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ninelives.testing import CountingEnv
from ninelives.testing.counting import STEP
from ninelives.testing.faults import raise_error, segfault
from ninelives.testing.kill_plan import KillLimiter, inject

SENT = {"kill": "kill", "stop": "hang"}
"""Faults by signal, and their names in ``kill_plan``."""

BREAKS = {"segfault": segfault, "exception": raise_error}
KINDS = (*SENT, *BREAKS)

DUE, SEED, AT_STEP, TAKEN = range(4)
"""Words of a slot: the fault to come (0: none; index in ``BREAKS`` plus one), where it broke last, how often it did.

The weather writes ``DUE`` while it is 0; everything else is written by the one environment that has the slot.
"""

RETRY_S = 0.01
"""Pause before looking again when no worker may be hit."""


def new_flags(path: Path, slots: int) -> npt.NDArray[np.int64]:
    """Make the shared file; no environment is due to break."""
    flags = np.memmap(path, np.int64, "w+", shape=(slots, 4))
    flags[:] = (0, -1, -1, 0)
    return flags


@dataclass(frozen=True)
class Weathered:
    """A factory of ``WeatheredEnv``: the shared file, and what an episode and a step of it take."""

    path: str
    episode_steps: int
    step_s: float

    def __call__(self) -> WeatheredEnv:
        """Build an environment."""
        return WeatheredEnv(self)


class WeatheredEnv(CountingEnv):
    """Counts, and breaks when a flag says so, in play as well as in a replay."""

    def __init__(self, plan: Weathered) -> None:
        super().__init__(plan.episode_steps)
        self._step_s = plan.step_s
        self._words = np.memmap(plan.path, np.int64, "r+").reshape(-1, 4)[self.slot]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode, or break."""
        answer = super().reset(seed=seed, options=options)
        self._break_if_due(-1)
        return answer

    def step(self, action: int | np.int64) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Count one step, or break in it."""
        time.sleep(self._step_s)
        self._break_if_due(int(self._row[STEP]))
        return super().step(action)

    def _break_if_due(self, step: int) -> None:
        due, place = int(self._words[DUE]), (self._seed, step)
        if due and place != (self._words[SEED], self._words[AT_STEP]):
            self._words[:] = (0, *place, self._words[TAKEN] + 1)
            tuple(BREAKS.values())[due - 1](None)


class WeatherLimiter(KillLimiter):
    """Which workers may be hit now.

    Nobody knows in which step a worker was stopped. So it is not broken from inside before its slots have made a few
    rows, nor the other way round.
    """

    def allows(self, worker: int, kind: str) -> bool:
        """Whether a fault of this kind may hit this worker."""
        hits = self._hits[worker]
        unlike = {"kill": (), "stop": ("stop", *BREAKS)}.get(kind, ("stop",))
        return super().allows(worker, "kill") and not set(hits).intersection(unlike)


class Weather(threading.Thread):
    """One fault at a random moment of every ``every_s`` seconds, until so many seconds are over.

    ``pids`` returns the current process ids of the workers, ``slots_of`` holds their slots. ``sent`` counts what was
    sent, ``left_out`` the times at which no worker could be hit until the next one was due.
    """

    def __init__(
        self,
        flags: npt.NDArray[np.int64],
        pids: Callable[[], Sequence[int | None]],
        slots_of: Sequence[Sequence[int]],
        seconds: float,
        every_s: float,
        seed: int,
    ) -> None:
        super().__init__(name="weather", daemon=True)
        self._flags, self._pids, self._slots_of, self._rng = flags, pids, slots_of, random.Random(seed)
        self._times, self._every_s = round(seconds / every_s), every_s
        self._limiter, self._lock, self._over = WeatherLimiter(slots_of), threading.Lock(), threading.Event()
        self.sent: Counter[str] = Counter()
        self.left_out = 0

    @property
    def is_done(self) -> bool:
        """Whether no further fault will come."""
        return not self.is_alive()

    def reach(self, batch: int) -> None:
        """Batches do not matter: faults come by the clock."""

    def saw(self, slots: Iterable[int]) -> None:
        """Record that each of these slots has produced a row."""
        with self._lock:
            self._limiter.saw(slots)

    def close(self) -> None:
        """Stop."""
        self._over.set()
        self.join()

    def run(self) -> None:
        """Run in the thread."""
        began = time.monotonic()
        for number in range(self._times):
            kind, worker = self._rng.choice(KINDS), self._rng.randrange(len(self._slots_of))
            self._over.wait(began + (number + self._rng.random()) * self._every_s - time.monotonic())
            while not self._over.is_set() and not self._try(kind, worker):
                if time.monotonic() > began + (number + 1) * self._every_s:
                    self.left_out += 1
                    break
                self._over.wait(RETRY_S)

    def _try(self, kind: str, first: int) -> bool:
        """Hit this worker, or the next that may be hit."""
        with self._lock:
            for worker in range(first, first + len(self._slots_of)):
                worker %= len(self._slots_of)
                if self._limiter.allows(worker, kind) and self._has_hit(worker, kind):
                    self._limiter.hit(worker, kind)
                    self.sent[kind] += 1
                    return True
        return False

    def _has_hit(self, worker: int, kind: str) -> bool:
        if kind in SENT:
            pid = self._pids()[worker]
            return pid is not None and inject(pid, SENT[kind])
        slot = self._rng.choice(self._slots_of[worker])
        if self._flags[slot, DUE]:
            return False
        self._flags[slot, DUE] = 1 + tuple(BREAKS).index(kind)
        return True
