"""Murders of workers: planned before the run, carried out by a thread, counted when they reached a living process.

::

    kill      SIGKILL, as the kernel does when memory is short
    hang      SIGSTOP: alive, and never answers again
    segfault  native code of the worker reads an address that does not exist, wherever it happens to be

A murder never touches the environment. It must only ever reach processes that the pool itself names as its workers.
"""

from __future__ import annotations

import ctypes
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ninelives.spec.env import EnvSpec

KINDS = ("kill", "hang", "segfault")

SEGFAULT_SIGNAL = signal.SIGRTMIN + 8
"""Makes an armed worker read a bad address; beside the supervisor's own signal, and used by no simulator."""

SHORTEST_S, LONGEST_S = 1e-6, 0.1
"""Delays are drawn evenly over the orders of magnitude between these: from within a step to many steps later."""

IN_PAIRS = 0.3
"""Share of murders that hit the worker of the one before again while it is brought back: it starts, or replays."""

LOOK_AGAIN_S = 0.0005
"""Pause of a murderer who finds nobody to murder."""

AT_ONCE, ROWS_BETWEEN = 3, 3
"""Murders of one worker before each of its slots must have made so many rows; of these only one may be no plain kill.

More at one and the same step, and a pool rightly takes the step for what kills.
"""


@dataclass(frozen=True)
class Murder:
    """One plan: ``delay_s`` after batch number ``batch`` was sent, and of ``worker`` if that one lives just then."""

    kind: str
    batch: int
    delay_s: float
    worker: int


def plan_murders(
    wanted: Mapping[str, int], batches: int, workers: int, recovery_s: float, rng: random.Random
) -> list[Murder]:
    """Draw every murder of a run, in the order of their batches; ``recovery_s`` is about what a recovery takes."""
    kinds = [kind for kind, count in wanted.items() for _ in range(count)]
    rng.shuffle(kinds)
    moments = sorted(rng.randrange(max(batches, 1)) for _ in kinds)
    murders: list[Murder] = []
    for kind, moment in zip(kinds, moments, strict=True):
        if murders and rng.random() < IN_PAIRS:
            murders.append(Murder(kind, murders[-1].batch, recovery_s * rng.random(), murders[-1].worker))
        else:
            delay_s = SHORTEST_S * (LONGEST_S / SHORTEST_S) ** rng.random()
            murders.append(Murder(kind, moment, delay_s, rng.randrange(workers)))
    return murders


class Mercy:
    """Who may be murdered just now: a worker whose slots go on, or that has not been hit too often since they did."""

    def __init__(self, slots_of: Sequence[Sequence[int]]) -> None:
        self._slots_of = slots_of
        self._blows: list[list[str]] = [[] for _ in slots_of]
        self._rows: list[Counter[int]] = [Counter() for _ in slots_of]

    def allows(self, worker: int, kind: str) -> bool:
        """Whether one more may hit this worker."""
        blows = self._blows[worker]
        return len(blows) < AT_ONCE and (kind == "kill" or set(blows) <= {"kill"})

    def hit(self, worker: int, kind: str) -> None:
        """One more has hit it."""
        self._blows[worker].append(kind)
        self._rows[worker].clear()

    def saw(self, slots: Iterable[int]) -> None:
        """These slots have each made a row."""
        for worker, blows in enumerate(self._blows):
            if blows:
                self._rows[worker].update(set(slots).intersection(self._slots_of[worker]))
                if all(self._rows[worker][slot] >= ROWS_BETWEEN for slot in self._slots_of[worker]):
                    blows.clear()


class Murderer(threading.Thread):
    """Carries out a plan, one murder after the other, while the caller steps and says how far it is.

    ``pids`` tells the workers' process numbers of the moment, ``slots_of`` their slots. Nobody is murdered twice.
    """

    def __init__(
        self, murders: Sequence[Murder], pids: Callable[[], Sequence[int | None]], slots_of: Sequence[Sequence[int]]
    ) -> None:
        super().__init__(name="ninelives-murderer", daemon=True)
        self._murders, self._pids, self._mercy = murders, pids, Mercy(slots_of)
        self._batch, self._turn, self._over = -1, threading.Condition(), threading.Event()
        self._victims: set[int] = set()
        self._failure: OSError | None = None
        self.delivered: Counter[str] = Counter()

    def saw(self, slots: Iterable[int]) -> None:
        """These slots have each made a row."""
        with self._turn:
            self._mercy.saw(slots)

    def reach(self, batch: int) -> None:
        """Batch number ``batch`` is on its way."""
        with self._turn:
            self._batch = batch
            self._turn.notify()

    @property
    def is_done(self) -> bool:
        """Whether nobody will be murdered any more."""
        return not self.is_alive()

    def close(self) -> None:
        """Murder nobody any more; raises what kept the thread from its work, if anything did."""
        with self._turn:
            self._over.set()
            self._turn.notify()
        self.join()
        if self._failure is not None:
            raise self._failure

    def run(self) -> None:
        """The thread itself."""
        try:
            for murder in self._murders:
                self._await(murder.batch)
                self._carry_out(murder)
        except OSError as failure:
            self._failure = failure

    def _await(self, batch: int) -> None:
        with self._turn:
            self._turn.wait_for(lambda: self._batch >= batch or self._over.is_set())

    def _carry_out(self, murder: Murder) -> None:
        pause_s = murder.delay_s
        while not self._over.wait(pause_s) and not self._commit(murder):
            # Nobody can be hit: come again later, and not always at the first moment of a new worker's life.
            pause_s = max(murder.delay_s, LOOK_AGAIN_S)

    def _commit(self, murder: Murder) -> bool:
        with self._turn:
            pids = self._pids()
            for turn in range(len(pids)):
                worker = (murder.worker + turn) % len(pids)
                if self._mercy.allows(worker, murder.kind) and self._has_hit(pids[worker], murder.kind):
                    self._mercy.hit(worker, murder.kind)
                    return True
        return False

    def _has_hit(self, pid: int | None, kind: str) -> bool:
        if pid is None or pid in self._victims or not strike(pid, kind):
            return False
        self._victims.add(pid)
        self.delivered[kind] += 1
        return True


def strike(pid: int, kind: str) -> bool:
    """Murder one process; returns whether it lived until then."""
    try:
        handle = os.pidfd_open(pid)  # a number may be given to another process, a handle may not
    except ProcessLookupError:
        return False
    try:
        status = _status(pid)
        if status.get("State", "X")[0] in "ZX":
            return False
        signal.pidfd_send_signal(handle, _signal_for(kind, int(status["SigCgt"], 16)))
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def _signal_for(kind: str, caught: int) -> int:
    """Before a worker is armed, a segfault can only be sent from outside: the supervisor sees the same."""
    armed = caught >> (SEGFAULT_SIGNAL - 1) & 1
    segfault = SEGFAULT_SIGNAL if armed else signal.SIGSEGV
    return {"kill": signal.SIGKILL, "hang": signal.SIGSTOP, "segfault": segfault}[kind]


def _status(pid: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


class ArmedSpec(EnvSpec):
    """The same environment, in a worker that segfaults when it is told to. The environment itself is left alone."""

    @classmethod
    def arming(cls, spec: EnvSpec) -> ArmedSpec:
        """The armed twin of a specification."""
        return cls(spec.env, spec.kwargs, spec.modules)

    def load(self) -> Callable[[], Any]:
        """As ever; the worker is armed before anything is built."""
        arm()
        return super().load()


def arm() -> None:
    """Have ``SEGFAULT_SIGNAL`` run ``strlen`` with the signal's number as its pointer: a true bad read.

    It happens in native code, at once and at any instruction, also while the interpreter waits or its lock is held.
    """
    libc = ctypes.CDLL(None)
    libc.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
    libc.signal.restype = ctypes.c_void_p
    libc.signal(SEGFAULT_SIGNAL, ctypes.cast(libc.strlen, ctypes.c_void_p))
