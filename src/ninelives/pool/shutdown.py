"""The end of all workers: asked to close, waited for, killed. Decides nothing about when; restarts nobody."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Sequence

from ninelives import events
from ninelives.clock import Clock
from ninelives.pool.workers.worker import Member, about
from ninelives.spec.phase import Stage
from ninelives.supervise import descent
from ninelives.supervise.children import Children, Report
from ninelives.supervise.lockfile import LockFile
from ninelives.supervise.machine import NS
from ninelives.transport.control import TO_STOP
from ninelives.transport.shared_memory import Wiring


class Farewell:
    """Ends every process of a crew, workers and spares."""

    def __init__(
        self,
        everyone: Sequence[Member],
        wiring: Wiring,
        children: Children,
        unheard: deque[Report],
        clock: Clock,
        emit: Callable[[events.Event], None],
        lock: LockFile | None,
    ) -> None:
        self._everyone, self._wiring, self._children, self._unheard = everyone, wiring, children, unheard
        self._clock, self._emit, self._lock = clock, emit, lock

    def stop_all(self) -> None:
        """Ask every worker to close; one that is still starting has nothing to lose and does not listen yet."""
        for member in self._everyone:
            self._wiring.control.to_worker[member.line, TO_STOP] = 1
            self._wiring.bells[member.line].ring()
            if member.stage is Stage.NONE and member.machine.is_alive:
                self._children.kill(member.line)

    def living(self) -> list[Member]:
        """Those whose process is not reaped."""
        return [member for member in self._everyone if member.pid is not None]

    def await_exits(self, timeout_s: float) -> None:
        """Hear exit reports until all are gone or the time is over."""
        end = self._clock.now_ns() + int(timeout_s * NS)
        while self.living() and (left := end - self._clock.now_ns()) > 0:
            if not self._unheard:
                self._unheard.extend(self._children.reports(min(left / NS, 0.05)))
            while self._unheard:
                self._note_exit(self._unheard.popleft())
            self._forget_gone()
        if self._lock is not None:
            self._lock.release()

    def kill_all(self) -> None:
        """End every living worker and its process group at once."""
        for member in self.living():
            self._emit(events.WorkerKilled(reason="did not close in time", **about(member)))
            self._children.kill(member.line)

    def forget_processes(self) -> None:
        """The keeper is gone, and its children with it."""
        for member in self.living():
            if member.pid is not None:
                descent.kill(member.pid, signal.SIGKILL, group=True)
            member.pid = None

    def _forget_gone(self) -> None:
        """A report that Ctrl-C tore out of our hands does not come again: who is not there needs none."""
        for member in self.living():
            if member.pid is not None and not descent.is_there(member.pid):
                member.pid = None

    def _note_exit(self, report: Report) -> None:
        if report.event == "lost":
            self.forget_processes()
        elif report.event == "exited":
            for member in self._everyone:
                member.pid = None if member.line == report.key else member.pid
