"""Supervises every worker of a pool, from its first start to its last: watches deadlines, notices ends, plans restarts.

Joins the pure parts (state machine, backoff, budget) with the effects (keeper, control words, events). It decides
nothing about rows: the pool learns from ``poll`` which workers came up, which went down, and why.
"""

from __future__ import annotations

import pickle
import random
import signal
from collections import deque
from collections.abc import Callable
from typing import NoReturn

from ninelives import events
from ninelives.errors import Fault, TransportError, error_for
from ninelives.pool.resources import Resources
from ninelives.pool.workers import limits, postmortem
from ninelives.pool.workers.fault_budget import FaultBudget
from ninelives.pool.workers.launcher import Launcher
from ninelives.pool.workers.postmortem import Describe, Postmortem
from ninelives.pool.workers.progress_words import Progress, read_progress
from ninelives.pool.workers.worker import WorkerChange, WorkerProcess, deadlines_of
from ninelives.spec.handshake import WorkerSpec
from ninelives.spec.phase import Phase, Stage
from ninelives.supervise import descent
from ninelives.supervise.budget import Backoff
from ninelives.supervise.child import DUMP_SIGNAL
from ninelives.supervise.children import Report
from ninelives.supervise.exits import Ending
from ninelives.supervise.machine import NS, Command, Reading, WorkerMachine, WorkerState
from ninelives.transport.control import TO_GO, TO_STOP

PROGRESS_STEPS = 50
"""Steps after which a generation counts as "it worked": a fault after that is not a crash loop."""

RECYCLE_JITTER = 0.1
"""Limits differ by up to this share between workers, so that they do not reach them together."""

PROBING = (Phase.RESET, Phase.STEP, Phase.CLOSE)
"""Phases of a worker that measures an environment, before its real start goes on."""


class Supervisor:
    """All workers of a pool.

    Attributes:
        launcher: starts them.
        budget: how often they broke, and which slots are quarantined.
        postmortem: why one of them ended.
        reports: what the keeper reported and is not dealt with yet.
    """

    def __init__(self, resources: Resources, spec: WorkerSpec, describe: Describe) -> None:
        self._resources, self._memory, self._children = resources, resources.memory, resources.children
        self._options, self._clock, self._emit = resources.options, resources.clock, resources.log.emit
        self.launcher = Launcher(resources, spec, _processes(resources))
        self.budget = FaultBudget(self._memory.slots, self._options, self._emit)
        self.postmortem = Postmortem(resources, describe, self.budget.quarantined)
        self.reports: deque[Report] = deque()
        self.started_ns = self._clock.now_ns()
        self._changes: list[WorkerChange] = []

    @property
    def workers(self) -> list[WorkerProcess]:
        """All roles that serve slots."""
        return self.launcher.workers

    @property
    def fileno(self) -> int:
        """Readable when the keeper has news."""
        return self._children.fileno

    @property
    def next_look_s(self) -> float:
        """How soon ``poll`` should be called again even if no bell rings."""
        states = {process.machine.state for process in self.workers}
        return 0.01 if states - {WorkerState.RUNNING, WorkerState.ENDED} else 0.05

    def poll(self, asked_ns: Callable[[int], int | None]) -> list[WorkerChange]:
        """Look at every worker once, act, and report what changed. Never waits.

        ``asked_ns`` gives the time at which a worker's oldest open request was sent, None if there is none.
        """
        self.reports.extend(self._children.reports())
        while self.reports:
            self._take_report(self.reports.popleft())  # one may raise: the others are dealt with later
        now = self._clock.now_ns()
        for process in self.launcher.everyone:
            if process.machine.is_alive:
                self._watch(process, asked_ns, now)
        changes, self._changes = self._changes, []
        return changes

    def start_due(self) -> None:
        """Start or replace every worker that is due. After ``poll``, when its changes are dealt with."""
        self.launcher.start_due(self.budget.quarantined)

    def retire(self, worker: int, reason: str) -> None:
        """Replace a worker on purpose."""
        process = self.workers[worker]
        self._act(process, process.machine.retire(reason, self._clock.now_ns()))

    def overdue(self) -> tuple[int, str] | None:
        """One running worker that is past a limit, with the reason."""
        for process in self.workers:
            limits.trim_log(self._resources.log_of(process.line))
        return limits.overdue(self.workers, self._options, self._clock.now_ns(), self.launcher.steps_of)

    def scene_of(self, slot: int) -> postmortem.Scene:
        """The scene of a fault that the worker of this slot survived."""
        return self.postmortem.slot_scene(next(one for one in self.workers if slot in one.slots), slot)

    def refuse_spaces(self, worker: int, text: str) -> NoReturn:
        """A worker built environments that do not fit the others."""
        raise error_for(postmortem.other_spaces(self.postmortem.scene(self.workers[worker]), text))

    def forget_processes(self) -> None:
        """The keeper is gone: make sure that its children are, too."""
        for process in self.launcher.everyone:
            if process.pid is not None:
                descent.kill(process.pid, signal.SIGKILL, group=True)
            process.pid = None

    # ---- watching ---------------------------------------------------------------------------------------------------

    def _watch(self, process: WorkerProcess, asked_ns: Callable[[int], int | None], now: int) -> None:
        control, since_ns = self._memory.control, int(self._memory.control.since_ns[process.line, 0])
        progress = read_progress(control.from_worker[process.line], self._memory.rows, since_ns, now)
        if progress.complaint:
            self._act(process, process.machine.condemn(f"impossible control words: {progress.complaint}", now))
        elif process.machine.state is WorkerState.STARTING:
            self._watch_start(process, progress, now)
        asked = None if process.is_spare else asked_ns(process.index)
        if process.machine.state is WorkerState.STARTING:
            asked = process.go_ns if control.to_worker[process.line, TO_GO] else None
        reading = Reading(progress.phase, since_ns, asked, progress.slot)
        self._act(process, process.machine.look(reading, now, self.launcher.deadline_scale))
        if process.machine.state is not WorkerState.KILLING:
            process.keeper.renew()
        elif process.keeper.is_over(now):
            self._children.kill_keeper()  # it does not answer; its closed channel is reported next

    def _watch_start(self, process: WorkerProcess, progress: Progress, now: int) -> None:
        phase, stage = progress.phase, progress.stage
        if phase is not process.phase and phase is not Phase.IDLE:
            self._emit(events.PhaseEntered(phase=phase.name.lower(), **process.event_fields()))
        process.phase = phase
        if stage is process.stage or stage is Stage.FAILED:
            return
        if process.stage is Stage.NONE and process.is_spare:
            self.launcher.started(process)  # it waits now, perhaps for ever, and delays no other start
        elif process.stage is Stage.NONE:
            self._read_hello(process)
        process.stage = stage
        if stage is Stage.READY:
            self._became_ready(process, now)

    def _read_hello(self, process: WorkerProcess) -> None:
        """Read the hello, unless the worker failed meanwhile and wrote its error report over it."""
        try:
            hello = self.postmortem.message(process)
        except (pickle.UnpicklingError, EOFError, TransportError):
            hello = None
        if hello is not None and self.postmortem.error_report(process) is None:
            self._changes.append(WorkerChange("hello", process.index, hello=hello))

    def _became_ready(self, process: WorkerProcess, now: int) -> None:
        process.machine.ready(now)
        process.booted, process.ready_ns, process.attempts = True, now, 0
        self.launcher.started(process)
        ready = sum(one.machine.state is WorkerState.RUNNING for one in self.workers)
        seconds, fields = (now - process.spawned_ns) / NS, process.event_fields(rss=True)
        self._emit(events.WorkerReady(seconds=seconds, ready=ready, total=len(self.workers), **fields))
        self._changes.append(WorkerChange("up", process.index))

    def _act(self, process: WorkerProcess, commands: list[Command]) -> None:
        for command in commands:
            if command is Command.DUMP:
                self._children.signal(process.line, DUMP_SIGNAL)
            elif command is Command.STOP:
                self._memory.control.to_worker[process.line, TO_STOP] = 1
                self._memory.bells[process.line].ring()
            elif command is Command.KILL:
                self._kill(process)

    def _kill(self, process: WorkerProcess) -> None:
        machine = process.machine
        if machine.hung is not None:
            stack = postmortem.log_tail(self._resources.log_of(process.line), process.log_from)
            phase, late_s = machine.hung.phase.name.lower(), machine.late_ns / NS
            self._emit(events.StackDumped(phase=phase, late_s=late_s, stack=stack, **process.event_fields()))
        reason = machine.condemned or ("missed its deadline" if machine.hung else "did not stop in time")
        self._emit(events.WorkerKilled(reason=reason, **process.event_fields(rss=True)))
        self._children.kill(process.line)

    # ---- ends -------------------------------------------------------------------------------------------------------

    def _take_report(self, report: Report) -> None:
        if report.event == "lost":
            self._keeper_lost()
            return
        process = next(one for one in self.launcher.everyone if one.line == report.key)
        if report.event == "spawned":
            process.pid = report.pid
            started = sum(one.booted or one.pid is not None for one in self.workers)
            total = 0 if process.groups is None else len(self.workers)  # the one that measures has no groups yet
            self._emit(events.WorkerSpawned(started=started, total=total, **process.event_fields()))
        elif report.event == "exited" and report.pid == process.pid:
            self._exited(process, Ending.of(report.status), report.max_rss)
        elif report.event == "spawn_failed":
            raise TransportError(f"worker {report.key} cannot be started: {report.error}; see `ninelives doctor`")

    def _exited(self, process: WorkerProcess, ending: Ending, rss: int) -> None:
        planned, now = process.machine.retired, self._clock.now_ns()
        fields = process.event_fields(rss_bytes=rss)
        self._emit(events.WorkerExited(cause=ending.describe(), expected=planned is not None, **fields))
        if process.is_measuring and self.postmortem.scene(process).phase in PROBING:
            self._start_without_measuring(process, now)
            return
        fault = None if planned or process.is_spare else self.postmortem.fault_of(process, ending, rss)
        self._is_gone(process, now)
        process.pid = None
        if process.is_spare:
            self._schedule(process, process.backoff.after_fault(made_progress=False), process.attempts, now)
            process.attempts += 1
            return
        if planned:
            self._emit(events.WorkerRecycled(reason=planned, **process.event_fields()))
            process.machine.wait_until(now, now)
        elif fault is not None:
            self._after_fault(process, fault, now)
        self._changes.append(WorkerChange("down", process.index, fault))

    def _start_without_measuring(self, process: WorkerProcess, now: int) -> None:
        """It died in a trial step: what a step costs stays unknown, and the start itself has not failed."""
        process.measures, process.pid = False, None
        self._is_gone(process, now)
        self._schedule(process, 0.0, process.attempts, now)

    def _is_gone(self, process: WorkerProcess, now: int) -> None:
        self.launcher.started(process)
        process.machine.exited(now)

    def _keeper_lost(self) -> None:
        self._emit(events.KeeperLost(cause="the keeper's channel is closed"))
        self._children.restart()
        self._children.tidy(str(self._resources.run_dir / "scratch"))
        self.forget_processes()
        now = self._clock.now_ns()
        for process in self.launcher.everyone:
            if not process.machine.is_alive:
                continue
            fault = None if process.is_spare else postmortem.lost_with_keeper(self.postmortem.scene(process))
            self._is_gone(process, now)
            if fault is None:
                self._schedule(process, 0.0, process.attempts, now)
            else:
                self._after_fault(process, fault, now)
                self._changes.append(WorkerChange("down", process.index, fault))

    # ---- after a fault ----------------------------------------------------------------------------------------------

    def _after_fault(self, process: WorkerProcess, fault: Fault, now: int) -> None:
        self.budget.note(fault, during_start=not process.booted)
        if not process.booted:
            self._retry_start(process, fault, now)
            return
        self.budget.charge(fault, now / NS)
        progressed = self.launcher.steps_of(process) - process.steps_at_start >= PROGRESS_STEPS
        process.restarts += 1
        if not set(process.slots) <= self.budget.quarantined:
            self._schedule(process, process.backoff.after_fault(progressed), process.restarts, now)

    def _retry_start(self, process: WorkerProcess, fault: Fault, now: int) -> None:
        """Never booted: a mistake in the settings fails fast, anything else is tried again a few times."""
        process.attempts += 1
        if fault.phase == "import" or fault.kind == "spaces" or process.attempts >= self._options.start_attempts:
            raise error_for(fault)
        self._schedule(process, process.backoff.after_fault(made_progress=False), process.attempts, now)

    def _schedule(self, process: WorkerProcess, delay_s: float, restarts: int, now: int) -> None:
        process.machine.wait_until(now + int(delay_s * NS), now)
        self._emit(events.RestartScheduled(delay_s=delay_s, restarts=restarts, **process.event_fields()))


def _processes(resources: Resources) -> list[WorkerProcess]:
    """One record for each line of the shared memory: workers first, then spares."""
    options, memory, rng = resources.options, resources.memory, random.Random()
    deadlines, grace = deadlines_of(options), int(options.close_timeout_s / 2 * NS)
    return [
        WorkerProcess(
            index=line,
            line=line,
            machine=WorkerMachine(deadlines, grace),
            backoff=Backoff(options.backoff_s, options.backoff_max_s, rng),
            jitter=1 + RECYCLE_JITTER * rng.random(),
            is_spare=line >= memory.workers,
        )
        for line in range(memory.workers + memory.spares)
    ]
