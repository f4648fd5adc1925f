"""Injects faults into workers: planned before the run, sent by a thread, counted once they reached a living process.

::

    kill      SIGKILL, as the kernel sends when memory is short
    hang      SIGSTOP: the process is alive and never answers again
    segfault  native code in the worker reads an address that does not exist, wherever the worker happens to be

The environment itself is never touched, and only processes that the pool names as its workers are ever hit.
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
"""Makes an armed worker read a bad address; not used by the supervisor or by any simulator."""

SHORTEST_S, LONGEST_S = 1e-6, 0.1
"""Delays are log-uniform between these: from within a step to many steps later."""

IN_PAIRS = 0.3
"""Share of faults that hit the same worker again while it recovers: while it starts, or replays."""

RETRY_S = 0.0005
"""Pause before looking again when no worker may be hit."""

AT_ONCE, ROWS_BETWEEN = 3, 3
"""At most ``AT_ONCE`` faults hit one worker before each of its slots has produced ``ROWS_BETWEEN`` rows; at most one of
them is not a plain kill.

With more faults at the same step, a pool would rightly conclude that the step itself is fatal.
"""


@dataclass(frozen=True)
class PlannedKill:
    """One planned fault: ``delay_s`` after batch ``batch`` was sent, in ``worker`` if that one may be hit then."""

    kind: str
    batch: int
    delay_s: float
    worker: int


def plan_kills(
    wanted: Mapping[str, int], batches: int, workers: int, recovery_s: float, rng: random.Random
) -> list[PlannedKill]:
    """Draw every fault of a run, ordered by batch; ``recovery_s`` is the approximate duration of a recovery."""
    kinds = [kind for kind, count in wanted.items() for _ in range(count)]
    rng.shuffle(kinds)
    moments = sorted(rng.randrange(max(batches, 1)) for _ in kinds)
    plan: list[PlannedKill] = []
    for kind, moment in zip(kinds, moments, strict=True):
        if plan and rng.random() < IN_PAIRS:
            plan.append(PlannedKill(kind, plan[-1].batch, recovery_s * rng.random(), plan[-1].worker))
        else:
            delay_s = SHORTEST_S * (LONGEST_S / SHORTEST_S) ** rng.random()
            plan.append(PlannedKill(kind, moment, delay_s, rng.randrange(workers)))
    return plan


class KillLimiter:
    """Which workers may be hit now: those that were not hit too often since all of their slots made progress."""

    def __init__(self, slots_of: Sequence[Sequence[int]]) -> None:
        self._slots_of = slots_of
        self._hits: list[list[str]] = [[] for _ in slots_of]
        self._rows: list[Counter[int]] = [Counter() for _ in slots_of]

    def allows(self, worker: int, kind: str) -> bool:
        """Whether a fault of this kind may hit this worker."""
        hits = self._hits[worker]
        return len(hits) < AT_ONCE and (kind == "kill" or set(hits) <= {"kill"})

    def hit(self, worker: int, kind: str) -> None:
        """Record that a fault has hit this worker."""
        self._hits[worker].append(kind)
        self._rows[worker].clear()

    def saw(self, slots: Iterable[int]) -> None:
        """Record that each of these slots has produced a row."""
        for worker, hits in enumerate(self._hits):
            if hits:
                self._rows[worker].update(set(slots).intersection(self._slots_of[worker]))
                if all(self._rows[worker][slot] >= ROWS_BETWEEN for slot in self._slots_of[worker]):
                    hits.clear()


class KillThread(threading.Thread):
    """Carries out a plan, one fault after the other, while the caller steps the pool and reports its progress.

    ``pids`` returns the current process ids of the workers, ``slots_of`` holds their slots. No process is hit twice.
    """

    def __init__(
        self, plan: Sequence[PlannedKill], pids: Callable[[], Sequence[int | None]], slots_of: Sequence[Sequence[int]]
    ) -> None:
        super().__init__(name="ninelives-chaos", daemon=True)
        self._plan, self._pids, self._limiter = plan, pids, KillLimiter(slots_of)
        self._batch, self._turn, self._over = -1, threading.Condition(), threading.Event()
        self._hit_pids: set[int] = set()
        self._failure: OSError | None = None
        self.delivered: Counter[str] = Counter()

    def saw(self, slots: Iterable[int]) -> None:
        """Record that each of these slots has produced a row."""
        with self._turn:
            self._limiter.saw(slots)

    def reach(self, batch: int) -> None:
        """Record that batch number ``batch`` was sent."""
        with self._turn:
            self._batch = batch
            self._turn.notify()

    @property
    def is_done(self) -> bool:
        """Whether no further fault will be injected."""
        return not self.is_alive()

    def close(self) -> None:
        """Stop injecting; raises the error that stopped the thread early, if there was one."""
        with self._turn:
            self._over.set()
            self._turn.notify()
        self.join()
        if self._failure is not None:
            raise self._failure

    def run(self) -> None:
        """Run in the thread."""
        try:
            for planned in self._plan:
                self._await(planned.batch)
                self._carry_out(planned)
        except OSError as failure:
            self._failure = failure

    def _await(self, batch: int) -> None:
        with self._turn:
            self._turn.wait_for(lambda: self._batch >= batch or self._over.is_set())

    def _carry_out(self, planned: PlannedKill) -> None:
        pause_s = planned.delay_s
        while not self._over.wait(pause_s) and not self._try(planned):
            # No worker may be hit: try again later, and not always at the first moment of a new worker's life.
            pause_s = max(planned.delay_s, RETRY_S)

    def _try(self, planned: PlannedKill) -> bool:
        with self._turn:
            pids = self._pids()
            for turn in range(len(pids)):
                worker = (planned.worker + turn) % len(pids)
                if self._limiter.allows(worker, planned.kind) and self._has_hit(pids[worker], planned.kind):
                    self._limiter.hit(worker, planned.kind)
                    return True
        return False

    def _has_hit(self, pid: int | None, kind: str) -> bool:
        if pid is None or pid in self._hit_pids or not inject(pid, kind):
            return False
        self._hit_pids.add(pid)
        self.delivered[kind] += 1
        return True


def inject(pid: int, kind: str) -> bool:
    """Inject one fault into a process; returns whether the process was alive until then."""
    try:
        handle = os.pidfd_open(pid)  # a process id may be reused, a handle is not
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
    """The signal to send. A worker that is not armed yet gets SIGSEGV directly; the supervisor sees the same."""
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
    """The same environment in a worker that segfaults on a signal. The environment itself is not changed."""

    @classmethod
    def arming(cls, spec: EnvSpec) -> ArmedSpec:
        """The armed version of a specification."""
        return cls(spec.env, spec.kwargs, spec.modules, spec.registrations)

    def load(self) -> Callable[[], Any]:
        """Load the environment's factory; the worker is armed before anything is built."""
        arm()
        return super().load()


def arm() -> None:
    """Make ``SEGFAULT_SIGNAL`` call ``strlen`` with the signal's number as its pointer: a real bad read.

    It happens in native code, immediately and at any instruction, also while the interpreter waits or the GIL is held.
    """
    libc = ctypes.CDLL(None)
    libc.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
    libc.signal.restype = ctypes.c_void_p
    libc.signal(SEGFAULT_SIGNAL, ctypes.cast(libc.strlen, ctypes.c_void_p))
