"""The crew: every worker's life from first start to last, and what happened to it, told as happenings.

Joins the pure machines (state, budget, backoff, admission) with the effects (keeper, control words, letters, events). It
decides nothing about rows: the pool learns from ``poll`` who came up and who went down, and why.
"""

from __future__ import annotations

import dataclasses
import os
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rookery import events
from rookery.clock import Clock
from rookery.errors import Fault, PoolExhaustedError, TransportError, error_for
from rookery.pool import evidence
from rookery.pool.wiring import Wiring
from rookery.spec.options import PoolOptions
from rookery.spec.phase import Phase, Stage
from rookery.spec.seat import Hello, WorkerSpec
from rookery.supervise import host
from rookery.supervise.admission import Admission
from rookery.supervise.budget import Backoff, RestartBudget
from rookery.supervise.child import DUMP_SIGNAL, ChildSpec
from rookery.supervise.children import Children, Report
from rookery.supervise.exits import Ending
from rookery.supervise.lockfile import LockFile
from rookery.supervise.machine import NS, Command, Deadlines, Reading, State, WorkerMachine
from rookery.transport.control import FROM_LETTER, FROM_PHASE, FROM_SLOT, FROM_STAGE, TO_GO, TO_LETTER, TO_STOP
from rookery.transport.mailbox import TO_PARENT, TO_WORKER

WORKER_ENTRY = "rookery.worker.main:run"
PROGRESS_STEPS = 50
"""Steps after which a generation counts as "it worked": a fault after that is not a crash loop."""

LOG_LIMIT_BYTES = 64 << 20
"""A worker's log is emptied beyond this; its end is what matters."""


@dataclass
class Member:
    """One worker: its machine and what is remembered of its present generation."""

    index: int
    machine: WorkerMachine
    backoff: Backoff
    slots: tuple[int, ...] = ()
    groups: dict[int, tuple[int, ...]] | None = None
    pid: int | None = None
    booted: bool = False
    attempts: int = 0
    stage: Stage = Stage.NONE
    phase: Phase = Phase.IDLE
    spawned_ns: int = 0
    ready_ns: int = 0
    log_from: int = 0
    steps_at_start: int = 0
    restarts: int = 0
    jitter: float = field(default=1.0)

    @property
    def is_up(self) -> bool:
        """Whether requests are served now (or will be noticed to be late)."""
        return self.machine.state in (State.RUNNING, State.DUMPING)


@dataclass(frozen=True)
class Happening:
    """News for the pool: ``hello``, ``up``, or ``down`` with the fault (None when the end was planned)."""

    kind: str
    worker: int
    fault: Fault | None = None
    hello: Hello | None = None


class Crew:
    """All workers of a pool."""

    def __init__(
        self,
        wiring: Wiring,
        options: PoolOptions,
        children: Children,
        run_dir: Path,
        clock: Clock,
        emit: Callable[[events.Event], None],
        describe: Callable[[int], tuple[int | None, Any]],
        spec: WorkerSpec,
    ) -> None:
        self._wiring, self._options, self._children, self._clock = wiring, options, children, clock
        self._emit, self._describe, self._spec = emit, describe, spec
        self._run_dir = run_dir
        rng = random.Random()
        deadlines = _deadlines(options)
        grace = int(options.close_timeout_s / 2 * NS)
        self.members = [
            Member(
                w, WorkerMachine(deadlines, grace), Backoff(options.backoff_s, options.backoff_max_s, rng),
                jitter=1 + 0.1 * rng.random(),
            )
            for w in range(wiring.workers)
        ]  # fmt: skip
        at_once = 1 if options.start_lock else options.start_concurrency or host.cores()
        self._admission = Admission(at_once, options.start_delay_s)
        self._lock = LockFile(options.start_lock) if options.start_lock else None
        self._budget = RestartBudget(
            wiring.slots, options.max_restarts_per_slot, options.max_restarts, options.restart_window_s
        )
        self.quarantined: set[int] = set()
        self.last_fault: dict[int, Fault] = {}
        self.faults = 0
        self.started_ns = clock.now_ns()
        self._slab_ready = False
        self._happenings: list[Happening] = []

    # ---- what the pool asks for ------------------------------------------------------------------------------------

    def assign(self, worker: int, groups: dict[int, tuple[int, ...]] | None, slots: tuple[int, ...]) -> None:
        """Give a worker its slots; ``groups=None`` makes it the scout that measures before the plan is made."""
        self.members[worker].groups, self.members[worker].slots = groups, slots

    def call_up(self, workers: Iterable[int]) -> None:
        """These workers shall start as soon as they are admitted."""
        for worker in workers:
            self._admission.ask(worker)

    def tell_scout(self, groups: dict[int, tuple[int, ...]]) -> None:
        """Tell the waiting scout which slots are its own; it goes on with ``let_go``."""
        scout = self.members[0]
        scout.groups, scout.slots = groups, tuple(s for slots in groups.values() for s in slots)
        letter_bytes = self._wiring.mail.put(self._wiring.mail.worker_window(0), TO_WORKER, groups)
        self._wiring.control.to_worker[0, TO_LETTER] = letter_bytes

    def let_go(self) -> None:
        """The slab has its size: workers that wait for it go on, later ones need not wait."""
        self._slab_ready = True
        self._wiring.control.to_worker[:, TO_GO] = 1
        for bell in self._wiring.bells:
            bell.ring()

    def dismiss(self, workers: int) -> None:
        """Fewer workers than there is room for were chosen: forget the rest."""
        del self.members[workers:]

    def retire(self, worker: int, reason: str) -> None:
        """Replace a worker on purpose."""
        self._act(self.members[worker], self.members[worker].machine.retire(reason, self._clock.now_ns()))

    def poll(self, asked_ns: Callable[[int], int | None]) -> list[Happening]:
        """Look at everything once, act, and tell what happened. Never waits."""
        for report in self._children.reports():
            self._hear(report)
        now = self._clock.now_ns()
        for member in self.members:
            if member.machine.is_alive:
                self._watch(member, asked_ns, now)
        self._restart_due(now)
        self._admit(now)
        happenings, self._happenings = self._happenings, []
        return happenings

    @property
    def next_look_s(self) -> float:
        """How soon ``poll`` should be called again even if nobody rings."""
        states = {member.machine.state for member in self.members}
        return 0.01 if states - {State.RUNNING, State.ENDED} else 0.05

    # ---- watching ---------------------------------------------------------------------------------------------------

    def _watch(self, member: Member, asked_ns: Callable[[int], int | None], now: int) -> None:
        if member.machine.state is State.STARTING:
            self._watch_start(member, now)
        line, since = self._wiring.control.from_worker[member.index], self._wiring.control.since_ns
        reading = Reading(Phase(int(line[FROM_PHASE])), int(since[member.index, 0]), asked_ns(member.index))
        self._act(member, member.machine.look(reading, now, self._start_scale()))

    def _start_scale(self) -> float:
        """Starts that share cores take longer: deadlines grow with how many start on how many cores."""
        return max(1.0, len(self._admission.starting) / host.cores())

    def _watch_start(self, member: Member, now: int) -> None:
        line = self._wiring.control.from_worker[member.index]
        phase = Phase(int(line[FROM_PHASE]))
        if phase is not member.phase and phase is not Phase.IDLE:
            self._emit(events.PhaseEntered(phase=phase.name.lower(), **self._about(member)))
        member.phase = phase
        stage = Stage(int(line[FROM_STAGE]))
        if stage is member.stage or stage is Stage.FAILED:
            return
        if member.stage is Stage.NONE:
            hello = self._wiring.mail.get(
                self._wiring.mail.worker_window(member.index), TO_PARENT, int(line[FROM_LETTER])
            ) if int(line[FROM_LETTER]) else None  # fmt: skip
            self._happenings.append(Happening("hello", member.index, hello=hello))
        member.stage = stage
        if stage is Stage.READY:
            self._became_ready(member, now)

    def _became_ready(self, member: Member, now: int) -> None:
        member.machine.ready(now)
        member.booted, member.ready_ns, member.attempts = True, now, 0
        self._release(member.index)
        ready = sum(m.machine.state is State.RUNNING for m in self.members)
        seconds = (now - member.spawned_ns) / NS
        self._emit(
            events.WorkerReady(seconds=seconds, ready=ready, total=len(self.members), **self._about(member, rss=True))
        )
        self._happenings.append(Happening("up", member.index))

    def _act(self, member: Member, commands: list[Command]) -> None:
        for command in commands:
            if command is Command.DUMP:
                self._children.signal(member.index, DUMP_SIGNAL)
            elif command is Command.STOP:
                self._wiring.control.to_worker[member.index, TO_STOP] = 1
                self._wiring.bells[member.index].ring()
            elif command is Command.KILL:
                self._kill(member)
            elif command is Command.SPAWN:
                self._spawn(member)

    def _kill(self, member: Member) -> None:
        machine = member.machine
        if machine.hung is not None:
            self._emit(
                events.StackDumped(
                    phase=machine.hung.phase.name.lower(), late_s=machine.late_ns / NS,
                    stack=evidence.log_tail(self.log_of(member.index), member.log_from), **self._about(member),
                )
            )  # fmt: skip
        reason = "missed its deadline" if machine.hung else "did not stop in time"
        self._emit(events.WorkerKilled(reason=reason, **self._about(member, rss=True)))
        self._children.kill(member.index)

    # ---- starting ---------------------------------------------------------------------------------------------------

    def _restart_due(self, now: int) -> None:
        for member in self.members:
            if member.machine.state is State.WAITING and member.machine.generation and now >= member.machine.restart_at_ns:
                self._admission.ask(member.index)

    def _admit(self, now: int) -> None:
        while self._admission.could_admit(now / NS) and (self._lock is None or self._lock.take()):
            member = self.members[self._admission.admit(now / NS)]
            self._act(member, member.machine.admitted(now))

    def _release(self, worker: int) -> None:
        self._admission.done(worker)
        if self._lock is not None and not self._admission.starting:
            self._lock.release()

    def _spawn(self, member: Member) -> None:
        control, mail, w = self._wiring.control, self._wiring.mail, member.index
        slots = tuple(s for s in member.slots if s not in self.quarantined)
        letter = dataclasses.replace(self._spec, slots=slots, groups=member.groups)
        control.from_worker[w] = 0  # nobody else writes here now: the last generation is reaped
        control.to_worker[w] = 0
        control.to_worker[w, TO_GO] = self._slab_ready
        control.since_ns[w, 0] = member.spawned_ns = self._clock.now_ns()
        control.from_worker[w, FROM_PHASE] = int(Phase.IMPORT)
        member.stage, member.phase, member.pid = Stage.NONE, Phase.IDLE, None
        member.steps_at_start = self._steps(member)
        log = self.log_of(w)
        member.log_from = log.stat().st_size if log.exists() else 0
        scratch = str(self._run_dir / "scratch" / f"worker-{w}")
        letter_bytes = mail.put(mail.worker_window(w), TO_WORKER, letter)
        self._children.spawn(
            ChildSpec(
                key=w, entry=WORKER_ENTRY, keep_fds=self._wiring.fds_of(w), scratch=scratch, log=str(log),
                args=self._wiring.seat(w, member.machine.generation, scratch, letter_bytes),
                tag=f"{os.getpid()}:{id(self)}:{w}:{member.machine.generation}",
            )
        )  # fmt: skip

    # ---- ends -------------------------------------------------------------------------------------------------------

    def _hear(self, report: Report) -> None:
        if report.event == "lost":
            self._keeper_lost()
            return
        member = self.members[report.key]
        if report.event == "spawned":
            member.pid = report.pid
            started = sum(m.booted or m.pid is not None for m in self.members)
            self._emit(events.WorkerSpawned(started=started, total=len(self.members), **self._about(member)))
        elif report.event == "exited" and report.pid == member.pid:
            self._exited(member, Ending.of(report.status), report.max_rss)
        elif report.event == "spawn_failed":
            raise TransportError(f"worker {report.key} cannot be started: {report.error}; see `rookery doctor`")

    def _exited(self, member: Member, ending: Ending, rss: int) -> None:
        machine, now = member.machine, self._clock.now_ns()
        planned = machine.retired
        self._emit(
            events.WorkerExited(cause=ending.describe(), expected=planned is not None, **self._about(member, rss_bytes=rss))
        )
        fault = None if planned else self._fault_of(member, ending, rss)
        self._release(member.index)
        machine.exited(now)
        if planned:
            self._emit(events.WorkerRecycled(reason=planned, **self._about(member)))
            machine.wait_until(now, now)
        elif fault is not None:
            self._after_fault(member, fault, now)
        member.pid = None
        self._happenings.append(Happening("down", member.index, fault))

    def _keeper_lost(self) -> None:
        self._emit(events.KeeperLost(cause="the keeper's channel is closed"))
        self._children.restart()
        self._children.tidy(str(self._run_dir / "scratch"))
        for member in self.members:
            if member.machine.is_alive:
                fault = evidence.lost_with_keeper(self._scene(member))
                self._release(member.index)
                member.machine.exited(self._clock.now_ns())
                self._after_fault(member, fault, self._clock.now_ns())
                self._happenings.append(Happening("down", member.index, fault))

    def _fault_of(self, member: Member, ending: Ending, rss: int) -> Fault:
        scene, machine = self._scene(member), member.machine
        if machine.hung is not None:
            limit = machine.deadlines.limits_ns[Phase.STEP if machine.hung.phase is Phase.IDLE else machine.hung.phase] / NS
            cause = evidence.hung(scene, machine.late_ns / NS, limit)
        else:
            cause = evidence.crashed(scene, ending, rss, host.memory_limit_bytes())
        if member.booted:
            words = self._last_words(member)
            return evidence.raised("raised", scene, words) if words else cause
        return evidence.never_started(scene, self._last_words(member), cause, member.attempts + 1)

    def _last_words(self, member: Member) -> dict[str, Any] | None:
        line = self._wiring.control.from_worker[member.index]
        if Stage(int(line[FROM_STAGE])) is not Stage.FAILED:
            return None
        words: dict[str, Any] = self._wiring.mail.get(
            self._wiring.mail.worker_window(member.index), TO_PARENT, int(line[FROM_LETTER])
        )
        return words

    def _scene(self, member: Member) -> evidence.Scene:
        line = self._wiring.control.from_worker[member.index]
        hung = member.machine.hung
        phase = hung.phase if hung is not None else Phase(int(line[FROM_PHASE]))
        culprit = int(line[FROM_SLOT]) - 1 if int(line[FROM_SLOT]) else None
        seed, action = self._describe(culprit) if culprit is not None else (None, None)
        slots = tuple(s for s in member.slots if s not in self.quarantined)
        return evidence.Scene(
            member.index, member.machine.generation, member.pid, slots, culprit, phase, seed,
            action if phase is Phase.STEP else None, self.log_of(member.index), member.log_from,
        )  # fmt: skip

    def slot_scene(self, slot: int) -> evidence.Scene:
        """The scene of a fault that the worker survived."""
        member = next(m for m in self.members if slot in m.slots)
        return dataclasses.replace(self._scene(member), slots=(slot,), culprit=slot)

    # ---- budgets ----------------------------------------------------------------------------------------------------

    def _after_fault(self, member: Member, fault: Fault, now: int) -> None:
        self._tell(fault, during_start=not member.booted)
        if not member.booted:
            self._retry_start(member, fault, now)
            return
        self.spend(fault, now)
        progressed = self._steps(member) - member.steps_at_start >= PROGRESS_STEPS
        delay = member.backoff.after_fault(progressed)
        member.restarts += 1
        if set(member.slots) <= self.quarantined:
            return
        member.machine.wait_until(now + int(delay * NS), now)
        self._emit(events.RestartScheduled(delay_s=delay, restarts=member.restarts, **self._about(member)))

    def _retry_start(self, member: Member, fault: Fault, now: int) -> None:
        """Never booted: a mistake in the settings fails fast, anything else is tried again a few times."""
        member.attempts += 1
        if fault.phase == "import" or member.attempts >= self._options.start_attempts:
            raise error_for(fault)
        delay = member.backoff.after_fault(made_progress=False)
        member.machine.wait_until(now + int(delay * NS), now)
        self._emit(events.RestartScheduled(delay_s=delay, restarts=member.attempts, **self._about(member)))

    def spend(self, fault: Fault, now: int) -> None:
        """Charge a fault to the budgets; quarantine or give up when one is spent."""
        guilty = fault.slots if fault.culprit is None else (fault.culprit,)
        spent, exhausted = self._budget.note(guilty, now / NS)
        window = self._options.restart_window_s
        for slot in sorted(spent - self.quarantined):
            self.quarantined.add(slot)
            restarts = self._budget.restarts_of(slot, now / NS)
            self._emit(events.SlotQuarantined(slots=(slot,), worker=fault.worker, restarts=restarts, window_s=window))
        if spent and self._options.on_exhausted == "raise":
            raise PoolExhaustedError(
                f"slots {sorted(spent)} broke more than {self._options.max_restarts_per_slot} times in {window:g} s; "
                "raise max_restarts_per_slot, or mend the environment", self.last_fault,
            )  # fmt: skip
        if exhausted or len(self.quarantined) == self._wiring.slots:
            what = "every slot is quarantined" if not exhausted else f"more than {self._options.max_restarts} faults"
            raise PoolExhaustedError(
                f"{what} within {window:g} s; raise max_restarts, or mend the environment", self.last_fault
            )

    def tell(self, fault: Fault) -> None:
        """A fault that the worker survived."""
        self._tell(fault, during_start=False)

    def _tell(self, fault: Fault, during_start: bool) -> None:
        self.faults += 1
        for slot in fault.slots if fault.culprit is None else (fault.culprit,):
            self.last_fault[slot] = fault
        self._emit(
            events.FaultSeen(
                kind=fault.kind, phase=fault.phase, summary=fault.summary, culprit=fault.culprit, signal=fault.signal,
                exit_code=fault.exit_code, seed=fault.seed, last_action=fault.last_action,
                stderr_tail=fault.stderr_tail, traceback=fault.traceback, during_start=during_start,
                worker=fault.worker, slots=fault.slots, generation=fault.generation, pid=fault.pid,
            )
        )  # fmt: skip

    # ---- limits -----------------------------------------------------------------------------------------------------

    def overdue(self) -> tuple[int, str] | None:
        """One running worker that is past a limit, with the reason; also keeps logs from growing without end."""
        now, options = self._clock.now_ns(), self._options
        for member in self.members:
            if member.machine.state is not State.RUNNING:
                continue
            self._trim_log(member.index)
            age, steps = (now - member.ready_ns) / NS, self._steps(member) - member.steps_at_start
            if options.max_steps and steps >= options.max_steps * member.jitter:
                return member.index, f"served {steps} steps"
            if options.max_age_s and age >= options.max_age_s * member.jitter:
                return member.index, f"{age:.0f} s old"
            rss = host.resident_bytes(member.pid or 0) if options.max_rss_bytes else 0
            if options.max_rss_bytes and rss >= options.max_rss_bytes * member.jitter:
                return member.index, f"grew to {rss / 1e6:.0f} MB"
        return None

    def _trim_log(self, worker: int) -> None:
        log = self.log_of(worker)
        if log.exists() and log.stat().st_size > LOG_LIMIT_BYTES:
            os.truncate(log, 0)  # the writer appends, so it goes on at the new end

    # ---- the end ----------------------------------------------------------------------------------------------------

    def stop_all(self) -> None:
        """Ask every worker to close."""
        for member in self.members:
            self._wiring.control.to_worker[member.index, TO_STOP] = 1
            self._wiring.bells[member.index].ring()

    def living(self) -> set[int]:
        """Workers whose process is not reaped."""
        return {m.index for m in self.members if m.pid is not None}

    def await_exits(self, timeout_s: float) -> None:
        """Hear exit reports until all are gone or the time is over."""
        end = self._clock.now_ns() + int(timeout_s * NS)
        while self.living() and (left := end - self._clock.now_ns()) > 0:
            for report in self._children.reports(min(left / NS, 0.05)):
                if report.event == "lost":
                    return
                if report.event == "exited":
                    self.members[report.key].pid = None
        if self._lock is not None:
            self._lock.release()

    def kill_all(self) -> None:
        """End every living worker and its process group at once."""
        for worker in self.living():
            self._emit(events.WorkerKilled(reason="did not close in time", **self._about(self.members[worker])))
            self._children.kill(worker)

    # ---- small facts ------------------------------------------------------------------------------------------------

    def log_of(self, worker: int) -> Path:
        """Where a worker's output goes."""
        return self._run_dir / f"worker-{worker}.log"

    def _steps(self, member: Member) -> int:
        return int(self._wiring.control.steps[list(member.slots)].sum()) if member.slots else 0

    def _about(self, member: Member, rss: bool = False, rss_bytes: int | None = None) -> dict[str, Any]:
        if rss and member.pid:
            rss_bytes = host.resident_bytes(member.pid)
        return {
            "worker": member.index, "slots": member.slots, "generation": member.machine.generation,
            "pid": member.pid, "rss_bytes": rss_bytes,
        }  # fmt: skip


def _deadlines(options: PoolOptions) -> Deadlines:
    seconds = {
        Phase.IMPORT: options.import_timeout_s,
        Phase.CONSTRUCT: options.construct_timeout_s,
        Phase.RESET: options.reset_timeout_s,
        Phase.RESTORE: options.reset_timeout_s,
        Phase.STEP: options.step_timeout_s,
        Phase.CALL: options.call_timeout_s,
        Phase.CLOSE: options.close_timeout_s,
    }
    return Deadlines({phase: int(limit * NS) for phase, limit in seconds.items()})
