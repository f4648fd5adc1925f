"""Takes a pool down: workers are asked to close, waited for, killed; then the keeper, the log, memory and directories.

Runs at ``close()``, after a failed start, and when a pool is collected. Bounded in every branch; restarts no worker.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time

from ninelives import events
from ninelives.pool.resources import Resources
from ninelives.pool.workers.supervisor import Supervisor
from ninelives.pool.workers.worker import WorkerProcess
from ninelives.spec.phase import Stage
from ninelives.supervise import descent
from ninelives.supervise.children import Report
from ninelives.supervise.machine import NS
from ninelives.transport.control import TO_STOP


def shut_down(resources: Resources, supervisor: Supervisor, steps: int) -> None:
    """End workers politely, then by force, then the keeper; remove what must not stay.

    A second Ctrl-C while waiting skips the polite part. A process forked by the user's program inherits the pool and
    runs its exit handlers, but the workers are not its own.
    """
    if os.getpid() != resources.owner_pid:
        return
    began, limit = time.monotonic(), resources.options.close_timeout_s
    with contextlib.ExitStack() as last:  # whatever fails, every callback runs, the last one first
        last.callback(_remove_directories, resources)
        last.callback(resources.memory.close)
        last.callback(resources.log.close)
        last.callback(resources.children.close, limit / 4)
        killed = _WorkerShutdown(resources, supervisor).run(limit)
        faults, seconds = supervisor.budget.faults, time.monotonic() - began
        resources.log.emit(events.PoolClosed(seconds=seconds, killed=killed, steps=steps, faults=faults))


def _remove_directories(resources: Resources) -> None:
    kept = resources.options.run_dir is not None
    shutil.rmtree(resources.run_dir / "scratch" if kept else resources.run_dir, ignore_errors=True)


class _WorkerShutdown:
    """Ends every process of a pool, workers and spares."""

    def __init__(self, resources: Resources, supervisor: Supervisor) -> None:
        self._resources, self._supervisor = resources, supervisor
        self._children, self._clock = resources.children, resources.clock
        self._everyone = supervisor.launcher.everyone

    def run(self, limit_s: float) -> int:
        """Ask, then kill; returns how many had to be killed."""
        try:
            self._ask_to_stop()
            self._await_exits(limit_s / 2)
        except KeyboardInterrupt:
            pass
        left = self._living()
        for process in left:
            fields = process.event_fields()
            self._resources.log.emit(events.WorkerKilled(reason="did not close in time", **fields))
            self._children.kill(process.line)
        self._await_exits(limit_s / 4)
        return len(left)

    def _ask_to_stop(self) -> None:
        """A worker that is still starting has nothing to lose and does not listen yet: it is killed at once."""
        memory = self._resources.memory
        for process in self._everyone:
            memory.control.to_worker[process.line, TO_STOP] = 1
            memory.bells[process.line].ring()
            if process.stage is Stage.NONE and process.machine.is_alive:
                self._children.kill(process.line)

    def _living(self) -> list[WorkerProcess]:
        """Those whose process is not reaped."""
        return [process for process in self._everyone if process.pid is not None]

    def _await_exits(self, timeout_s: float) -> None:
        """Take exit reports until all processes are gone or the time is over."""
        end, reports = self._clock.now_ns() + int(timeout_s * NS), self._supervisor.reports
        while self._living() and (left := end - self._clock.now_ns()) > 0:
            if not reports:
                reports.extend(self._children.reports(min(left / NS, 0.05)))
            while reports:
                self._take_report(reports.popleft())
            self._forget_gone()
        self._supervisor.launcher.close()

    def _take_report(self, report: Report) -> None:
        if report.event == "lost":
            self._supervisor.forget_processes()
        elif report.event == "exited":
            for process in self._everyone:
                process.pid = None if process.line == report.key else process.pid

    def _forget_gone(self) -> None:
        """Ctrl-C can interrupt the reading of a report, which then never comes again: look at the processes, too."""
        for process in self._living():
            if process.pid is not None and not descent.is_there(process.pid):
                process.pid = None
