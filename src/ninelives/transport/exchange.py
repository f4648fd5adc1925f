"""Requests and answers by sequence number: the typed ``Caller`` of the parent and the worker's ``Answerer``.

``Caller`` is the runtime's central seam. It has two implementations, chosen once by ``make_caller``: the native
``_exchange.Caller`` and ``PyCaller`` in pure Python; the same tests run over both. A request is one increment of a
group's ``sent`` word, its answer is ``done`` catching up with it. A late answer can therefore never be taken for the
answer to a newer request: the numbers differ.

Without the native module the publishing stores are plain stores of the interpreter. On x86 stores stay in order, but a
store may still be on its way when a later load is done, so "I sleep" and "I asked" can miss each other. That is why no
process in pure Python sleeps without a limit. On other processors the native module is the one to use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ninelives.native import native_module
from ninelives.transport.bell import Bell
from ninelives.transport.control import (
    FROM_ASLEEP,
    GROUP_ATTENTION,
    GROUP_DONE,
    GROUP_SENT,
    PARENT_ASLEEP,
    TO_STOP,
    WORDS,
    Control,
)

PARENT_ROUNDS = 200
"""Rounds (eight looks and a yield, about 1 us each) before the parent sleeps: longer than a batch of a few cheap steps.

A parent that sleeps is woken late, which makes the next wait look long: it must not go to sleep just because the
machine is slow for a while.
"""

WORKER_ROUNDS = 200
"""The same for workers: between two batches the parent's policy runs, and waking costs 30 to 50 us.

Only while every worker has a core of its own: processes that yield to each other can keep one more from ever running.
"""

PY_ROUNDS = 40
"""Rounds of the pure-Python loops, where one look already costs as much as a native round."""

WAITS_PER_YIELD = 8
"""After this many waits in a row that found their answers ready, the parent yields anyway; ``_exchange.c`` says why."""

PY_NAP_S = 0.1
"""Longest sleep of a pure-Python worker: its stores are not fenced, so a ring can, very rarely, be missed."""

ALREADY_SENT, NOT_SENT = -1, -2
"""Results of ``exchange_all`` that leave the rest to ``wait`` and ``collect``, or everything to ``post`` and these."""

Numbers = npt.NDArray[np.int64]
Numbers32 = npt.NDArray[np.int32]


class Caller(Protocol):
    """The parent's side of the exchange: post requests to groups, wait until enough of them are answered.

    ``exchange_all``, ``send_some`` and ``recv_some`` do the common case of several calls in one. An implementation may
    decline any of them (``NOT_SENT``, False, None), and nothing has happened then.

    Attributes:
        extra_fd: a descriptor that also ends a wait.
    """

    extra_fd: int

    @property
    def inflight_count(self) -> int:
        """How many groups are asked and not handed out."""
        ...

    def post_all(self) -> None:
        """Ask every group and ring sleeping workers."""
        ...

    def post(self, groups: Sequence[int]) -> None:
        """Ask these groups and ring their workers if asleep."""
        ...

    def answer(self, group: int) -> None:
        """Mark a group as answered by the parent itself: nothing was asked, so it is ready at once."""
        ...

    def settle(self, group: int) -> None:
        """Close the open request of a group whose worker is dead and reaped."""
        ...

    def is_open(self, group: int) -> bool:
        """Whether a group still waits for its worker."""
        ...

    def is_inflight(self, group: int) -> bool:
        """Whether a group was asked and not handed out."""
        ...

    def wait(self, need: int, timeout_ns: int) -> int:
        """Wait for ``need`` ready groups and return how many are ready; fewer after a timeout or on ``extra_fd``."""
        ...

    def collect_all(self) -> int:
        """Hand out every group; returns their attention bits together."""
        ...

    def collect(self, need: int, start: int) -> tuple[list[int], int]:
        """Hand out up to ``need`` ready groups, searched from ``start``, with their attention bits."""
        ...

    def exchange_all(
        self,
        actions: Any,
        rows: npt.NDArray[Any],
        note: Callable[[], None] | None,
        sent_ns: Numbers,
        timeout_ns: int,
        until_ns: int,
    ) -> int:
        """Write actions, ``note()``, ask every group, wait and hand out; returns attention bits, or one of the above.

        ``rows`` are the action rows of the slab, ``until_ns`` is when the workers are next to be looked after.
        """
        ...

    def send_some(
        self,
        actions: Any,
        rows: npt.NDArray[Any],
        slots: Numbers,
        groups: list[int],
        note: Callable[[Numbers], None] | None,
        sent_ns: Numbers,
    ) -> bool:
        """Write the actions of these slots, ``note(slots)``, and ask their groups; returns whether that was done."""
        ...

    def recv_some(self, need: int, start: int, timeout_ns: int, until_ns: int) -> tuple[list[int], int] | None:
        """Wait for ``need`` groups and hand them out as ``collect`` does; None if they are not there in time."""
        ...


def make_caller(
    control: Control, bells: Sequence[Bell], line_of: Numbers32, parent_bell: Bell, extra_fd: int
) -> Caller:
    """The native caller where it is built and allowed, else the Python one. ``line_of``: the process of each group."""
    native = native_module("ninelives.transport._exchange")
    kind: Any = PyCaller if native is None else native.Caller
    caller: Caller = kind(
        parent=control.parent,
        from_worker=control.from_worker,
        group=control.group,
        bells=np.array([bell.ring_fd for bell in bells], np.int32),
        worker_of=line_of,
        own_fd=parent_bell.wait_fd,
        extra_fd=extra_fd,
        rounds=PARENT_ROUNDS,
    )
    return caller


class PyCaller:
    """``Caller`` in pure Python; declines what only native code does faster."""

    def __init__(
        self,
        parent: npt.NDArray[np.uint32],
        from_worker: npt.NDArray[np.uint32],
        group: npt.NDArray[np.uint32],
        bells: npt.NDArray[np.int32],
        worker_of: npt.NDArray[np.int32],
        own_fd: int,
        extra_fd: int,
        rounds: int,
    ) -> None:
        self._from = from_worker
        self._parent: Any = memoryview(parent)  # type: ignore[arg-type]
        self._group: Any = memoryview(group.reshape(-1))  # type: ignore[arg-type]
        self._bells = [Bell(-1, int(fd)) for fd in bells]
        self._own = Bell(own_fd, -1)
        self._worker_of = worker_of
        self._inflight: set[int] = set()
        self._rounds = min(rounds, PY_ROUNDS)
        self._greedy = 0
        self.extra_fd = extra_fd

    @property
    def inflight_count(self) -> int:
        """How many groups are asked and not handed out."""
        return len(self._inflight)

    def post_all(self) -> None:
        """Ask every group and ring sleeping workers."""
        self.post(range(len(self._worker_of)))

    def post(self, groups: Iterable[int]) -> None:
        """Ask these groups and ring their workers if asleep."""
        workers = set()
        for g in groups:
            self._inflight.add(g)
            self._group[g * WORDS + GROUP_SENT] = (self._group[g * WORDS + GROUP_SENT] + 1) & 0xFFFFFFFF
            workers.add(int(self._worker_of[g]))
        for w in workers:
            if self._from[w, FROM_ASLEEP]:
                self._bells[w].ring()

    def answer(self, group: int) -> None:
        """Mark a group as answered by the parent itself: nothing was asked, so it is ready at once."""
        self._inflight.add(group)

    def settle(self, group: int) -> None:
        """Close the open request of a group whose worker is dead and reaped."""
        self._group[group * WORDS + GROUP_ATTENTION] = 0
        self._group[group * WORDS + GROUP_DONE] = self._group[group * WORDS + GROUP_SENT]

    def is_open(self, group: int) -> bool:
        """Whether a group still waits for its worker."""
        return bool(self._group[group * WORDS + GROUP_DONE] != self._group[group * WORDS + GROUP_SENT])

    def is_inflight(self, group: int) -> bool:
        """Whether a group was asked and not handed out."""
        return group in self._inflight

    def wait(self, need: int, timeout_ns: int) -> int:
        """Wait for ``need`` ready groups; returns how many are. Fewer: look after the workers, then wait again."""
        self._greedy += 1
        if self._greedy > WAITS_PER_YIELD:
            self._give_way()
        for _ in range(self._rounds):
            ready = self._count()
            if ready >= need:
                return ready
            self._give_way()
        self._parent[PARENT_ASLEEP] = 1
        try:
            if self._count() < need:
                self._own.wait(timeout_ns / 1e9, self.extra_fd)
        finally:
            self._parent[PARENT_ASLEEP] = 0
        return self._count()

    def _give_way(self) -> None:
        self._greedy = 0
        os.sched_yield()

    def collect_all(self) -> int:
        """Hand out every group; returns their attention bits together."""
        attention = 0
        for g in range(len(self._worker_of)):
            attention |= self._group[g * WORDS + GROUP_ATTENTION]
        self._inflight.clear()
        return attention

    def collect(self, need: int, start: int) -> tuple[list[int], int]:
        """Hand out up to ``need`` ready groups, searched from ``start``, with their attention bits."""
        total, attention = len(self._worker_of), 0
        out: list[int] = []
        for q in range(total):
            g = (start + q) % total
            if len(out) < need and g in self._inflight and not self.is_open(g):
                out.append(g)
                attention |= self._group[g * WORDS + GROUP_ATTENTION]
        self._inflight.difference_update(out)
        return out, attention

    def exchange_all(self, *args: Any) -> int:
        """Declined: ``post_all``, ``wait`` and ``collect_all`` do it."""
        return NOT_SENT

    def send_some(self, *args: Any) -> bool:
        """Declined: ``post`` does it."""
        return False

    def recv_some(self, need: int, start: int, timeout_ns: int, until_ns: int) -> None:
        """Declined: ``wait`` and ``collect`` do it."""

    def _count(self) -> int:
        return sum(not self.is_open(g) for g in self._inflight)


class Answerer:
    """The worker's side: find the next group that was asked, publish its answer, sleep when there is nothing to do."""

    def __init__(
        self, control: Control, worker: int, groups: Sequence[int], bell: Bell, parent_bell: Bell, rounds: int
    ) -> None:
        self._to, self._from = control.to_worker[worker], control.from_worker[worker]
        self._parent: Any = memoryview(control.parent)  # type: ignore[arg-type]
        self._group: Any = memoryview(control.group.reshape(-1))  # type: ignore[arg-type]
        self._groups, self._turn, self._asked = list(groups), 0, 0
        self._bell, self._parent_bell = bell, parent_bell
        self._rounds = min(rounds, PY_ROUNDS)

    def next_group(self) -> int | None:
        """The next asked group, in turn so that none starves; None when the parent says stop."""
        rounds = self._rounds
        while not self._to[TO_STOP]:
            group = self._find()
            if group is not None:
                return group
            if rounds:
                rounds -= 1
                os.sched_yield()
            else:
                self._sleep()
        return None

    def _sleep(self) -> None:
        self._from[FROM_ASLEEP] = 1
        if not self._is_asked() and not self._to[TO_STOP]:
            self._bell.wait(PY_NAP_S)
        self._from[FROM_ASLEEP] = 0

    def publish(self, group: int, attention: int) -> None:
        """Everything of the answer is written: say so, and ring the parent if it sleeps."""
        self._group[group * WORDS + GROUP_ATTENTION] = attention
        self._group[group * WORDS + GROUP_DONE] = self._asked
        if self._parent[PARENT_ASLEEP]:
            self._parent_bell.ring()

    def _is_asked(self) -> bool:
        words = self._group
        return any(words[g * WORDS + GROUP_SENT] != words[g * WORDS + GROUP_DONE] for g in self._groups)

    def _find(self) -> int | None:
        count = len(self._groups)
        for q in range(count):
            g = self._groups[(self._turn + q) % count]
            sent = self._group[g * WORDS + GROUP_SENT]
            if sent != self._group[g * WORDS + GROUP_DONE]:
                self._asked = sent  # what is answered is this request, not a later one
                self._turn = (self._turn + q + 1) % count
                return g
        return None
