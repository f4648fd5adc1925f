"""Starts worker processes: who may start when, with which message, and spares that replace a worker at once.

Owns admission, the start lock and every word that lets a process go on. Watches and ends none: that is the
supervisor's part.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence, Set

from ninelives import events, host
from ninelives.pool.resources import Resources
from ninelives.pool.workers.worker import WorkerProcess, swap_processes, waiting_spare
from ninelives.spec.handshake import WorkerSpec
from ninelives.spec.phase import Phase, Stage
from ninelives.supervise.admission import Admission
from ninelives.supervise.child import ChildSpec
from ninelives.supervise.machine import NS, WorkerState
from ninelives.transport.control import FROM_PHASE, FROM_SLOT, TO_CORE, TO_GO, TO_MESSAGE, TO_POLL
from ninelives.transport.mailbox import TO_WORKER

WORKER_ENTRY = "ninelives.worker.main:run"
"""The worker's code is known by name only: it is never imported here."""


class Launcher:
    """Starts generations of workers and spares.

    Attributes:
        spec: what the first message to every worker has in common.
        workers: all roles that serve slots.
        spares: processes whose environments are built and that wait for a worker to die.
    """

    def __init__(self, resources: Resources, spec: WorkerSpec, processes: Sequence[WorkerProcess]) -> None:
        self._resources, self._memory, self._clock = resources, resources.memory, resources.clock
        options = resources.options
        self.spec = spec
        self.workers = [process for process in processes if not process.is_spare]
        self.spares = [process for process in processes if process.is_spare]
        self._lock = resources.start_lock
        at_once = 1 if self._lock is not None else options.start_concurrency or host.cores()
        self._admission = Admission(at_once, options.start_delay_s)
        self._may_poll = False
        self._cores: tuple[int, ...] = ()

    @property
    def everyone(self) -> list[WorkerProcess]:
        """Workers and spares."""
        return [*self.workers, *self.spares]

    @property
    def deadline_scale(self) -> float:
        """Starts that share cores take longer: deadlines grow with how many start on how many cores."""
        return max(1.0, len(self._admission.starting) / host.cores())

    def steps_of(self, process: WorkerProcess) -> int:
        """Steps that the slots of a worker have taken so far; a spare has no slots of the pool."""
        slots = () if process.is_spare else process.slots
        return int(self._memory.control.steps[list(slots)].sum()) if slots else 0

    # ---- who starts --------------------------------------------------------------------------------------------------

    def assign(self, worker: int, groups: dict[int, tuple[int, ...]] | None, slots: tuple[int, ...]) -> None:
        """Give a worker its slots; ``groups=None`` makes it the one that measures before the plan is made."""
        self.workers[worker].groups, self.workers[worker].slots = groups, slots

    def request(self, workers: Iterable[int]) -> None:
        """These workers start as soon as they are admitted."""
        for worker in workers:
            self._admission.ask(worker)

    def request_spares(self, slots_each: int) -> None:
        """Let spares start, each with as many environments as a worker has at most."""
        for number, spare in enumerate(self.spares):
            first = self._memory.slots + number * self._memory.slots_per_spare
            spare.slots = tuple(range(first, first + slots_each))
            self._admission.ask(spare.index)

    def forget_beyond(self, workers: int) -> None:
        """Fewer workers than there is room for were chosen: forget the rest."""
        del self.workers[workers:]

    def start_due(self, quarantined: Set[int]) -> None:
        """Start or replace every worker that is due."""
        now = self._clock.now_ns()
        for process in self.everyone:
            machine = process.machine
            if machine.state is WorkerState.WAITING and machine.generation and now >= machine.restart_at_ns:
                self._replace(process)
        while self._admission.could_admit(now / NS) and (self._lock is None or self._lock.take()):
            index = self._admission.admit(now / NS)
            process = next(one for one in self.everyone if one.index == index)
            if process.machine.admitted(now):
                self._launch(process, now, quarantined)

    def started(self, process: WorkerProcess) -> None:
        """A start is over, well or not: the next one may begin."""
        self._admission.done(process.index)
        if self._lock is not None and not self._admission.starting:
            self._lock.release()

    def close(self) -> None:
        """Nothing more will be started."""
        if self._lock is not None:
            self._lock.release()

    # ---- going on ----------------------------------------------------------------------------------------------------

    def send_groups(self, process: WorkerProcess, groups: dict[int, tuple[int, ...]]) -> None:
        """Leave a waiting process the message that it reads when it may go on."""
        process.groups, process.slots = groups, tuple(slot for slots in groups.values() for slot in slots)
        window = self._memory.mail.worker_window(process.line)
        message_bytes = self._memory.mail.put(window, TO_WORKER, groups)
        self._memory.control.to_worker[process.line, TO_MESSAGE] = message_bytes

    def let_all_go(self, digest: str) -> None:
        """The slab has its size: workers that wait for it go on, later ones need not wait."""
        self.spec = dataclasses.replace(self.spec, digest=digest)
        self._may_poll = len(self.workers) <= host.cores()
        self._memory.control.to_worker[:, TO_POLL] = self._may_poll
        self._cores = host.one_core_each(len(self.workers)) if self._resources.options.pin_workers else ()
        for process in self.workers:
            self._let_go(process)

    def _let_go(self, process: WorkerProcess) -> None:
        process.go_ns = self._clock.now_ns()
        self._write_core(process)
        self._memory.control.to_worker[process.line, TO_GO] = 1
        self._memory.bells[process.line].ring()

    def _write_core(self, process: WorkerProcess) -> None:
        """Which core the process keeps to once it serves; a spare has none until it replaces a worker."""
        core = self._cores[process.index] + 1 if self._cores and not process.is_spare else 0
        self._memory.control.to_worker[process.line, TO_CORE] = core

    # ---- starting ----------------------------------------------------------------------------------------------------

    def _replace(self, process: WorkerProcess) -> None:
        """A waiting spare takes over at once; otherwise a new generation is started."""
        spare = None if process.is_spare else waiting_spare(self.spares)
        if spare is None or process.groups is None:
            self._admission.ask(process.index)
            return
        self._admission.done(process.index)
        swap_processes(process, spare)
        self._memory.move_to_line(process.index, process.line)
        process.steps_at_start, process.spawned_ns = self.steps_of(process), self._clock.now_ns()
        # It waits and writes nothing; from here on it has a deadline, also if it should never wake up.
        control = self._memory.control
        control.since_ns[process.line, 0] = process.spawned_ns
        control.from_worker[process.line, FROM_SLOT] = 0
        control.from_worker[process.line, FROM_PHASE] = int(Phase.RESTORE)
        self._resources.log.emit(events.SpareStepped(**process.event_fields()))
        self.send_groups(process, process.groups)
        self._let_go(process)
        self._admission.ask(spare.index)

    def _launch(self, process: WorkerProcess, now_ns: int, quarantined: Set[int]) -> None:
        """Start the present generation, without its quarantined slots."""
        log = self._resources.log_of(process.line)
        process.stage, process.phase, process.pid = Stage.NONE, Phase.IDLE, None
        process.spawned_ns = process.go_ns = now_ns
        process.steps_at_start = self.steps_of(process)
        process.log_from = log.stat().st_size if log.exists() else 0
        self._clear_line(process, now_ns)
        slots = tuple(slot for slot in process.slots if slot not in quarantined)
        message = dataclasses.replace(
            self.spec, slots=slots, groups=process.groups, spare=process.is_spare, measure=process.measures
        )
        window = self._memory.mail.worker_window(process.line)
        self._resources.children.spawn(self._child(process, self._memory.mail.put(window, TO_WORKER, message)))

    def _clear_line(self, process: WorkerProcess, now_ns: int) -> None:
        """A clean line for a new generation; no process writes here now, the last one is reaped."""
        control, line = self._memory.control, process.line
        control.from_worker[line] = 0
        control.to_worker[line] = 0
        control.to_worker[line, TO_GO] = bool(self.spec.digest) and not process.is_spare
        control.to_worker[line, TO_POLL] = self._may_poll
        self._write_core(process)
        control.since_ns[line, 0] = now_ns
        control.from_worker[line, FROM_PHASE] = int(Phase.IMPORT)

    def _child(self, process: WorkerProcess, message_bytes: int) -> ChildSpec:
        line, generation = process.line, process.machine.generation
        scratch = str(self._resources.run_dir / "scratch" / f"worker-{line}")
        return ChildSpec(
            key=line,
            entry=WORKER_ENTRY,
            args=self._memory.place_of(line, generation, scratch, message_bytes),
            keep_fds=self._memory.fds_of(line),
            scratch=scratch,
            log=str(self._resources.log_of(line)),
            tag=f"{self._resources.children.tag}:{line}:{generation}",
            name=f"ninelives-{line}.{generation}",
        )
