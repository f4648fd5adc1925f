"""The crew: every worker's life from first start to last, and what happened to it, told as happenings.

Joins the pure machines (state, backoff, admission, ledger) with the effects (keeper, control words, letters, events).
It decides nothing about rows: the pool learns from ``poll`` who came up, who went down, and why.
"""

from __future__ import annotations

import dataclasses
import pickle
import random
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ninelives import events, host
from ninelives.clock import Clock
from ninelives.errors import Fault, TransportError, error_for
from ninelives.pool.shutdown import Farewell
from ninelives.pool.workers import limits, postmortem, spares
from ninelives.pool.workers.fault_budget import Ledger
from ninelives.pool.workers.inquest import Inquest
from ninelives.pool.workers.launcher import Launcher
from ninelives.pool.workers.worker import Happening, Member, about, deadlines_of
from ninelives.spec.handshake import WorkerSpec
from ninelives.spec.options import PoolOptions
from ninelives.spec.phase import Phase, Stage
from ninelives.supervise.admission import Admission
from ninelives.supervise.budget import Backoff
from ninelives.supervise.child import DUMP_SIGNAL
from ninelives.supervise.children import Children, Report
from ninelives.supervise.exits import Ending
from ninelives.supervise.lockfile import LockFile
from ninelives.supervise.machine import NS, Command, Reading, WorkerMachine, WorkerState
from ninelives.transport.control import FROM_PHASE, FROM_SLOT, FROM_STAGE, TO_GO, TO_LETTER, TO_POLL, TO_STOP
from ninelives.transport.mailbox import TO_WORKER
from ninelives.transport.shared_memory import Wiring

PROGRESS_STEPS = 50
"""Steps after which a generation counts as "it worked": a fault after that is not a crash loop."""

RECYCLE_JITTER = 0.1
"""Limits differ by up to this share between workers, so that they do not reach them together."""


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
        lock: LockFile | None,
    ) -> None:
        self._wiring, self._options, self._children, self._clock = wiring, options, children, clock
        self._emit, self._run_dir = emit, run_dir
        self._launcher = Launcher(wiring, children, run_dir, spec)
        rng = random.Random()
        deadlines = deadlines_of(options)
        grace = int(options.close_timeout_s / 2 * NS)
        everyone = [
            Member(
                index=line,
                line=line,
                machine=WorkerMachine(deadlines, grace),
                backoff=Backoff(options.backoff_s, options.backoff_max_s, rng),
                jitter=1 + RECYCLE_JITTER * rng.random(),
                is_spare=line >= wiring.workers,
            )
            for line in range(wiring.workers + wiring.spares)
        ]
        self.members, self.spares = everyone[: wiring.workers], everyone[wiring.workers :]
        at_once = 1 if lock is not None else options.start_concurrency or host.cores()
        self._admission = Admission(at_once, options.start_delay_s)
        self._lock = lock
        self.ledger = Ledger(wiring.slots, options, emit)
        self._inquest = Inquest(
            wiring, self._launcher, describe, self.ledger.quarantined, log_stays=options.run_dir is not None
        )
        self.started_ns = clock.now_ns()
        self._happenings: list[Happening] = []
        self._unheard: deque[Report] = deque()
        self.farewell = Farewell(everyone, wiring, children, self._unheard, clock, emit, lock)

    # ---- what the pool asks for ------------------------------------------------------------------------------------

    def assign(self, worker: int, groups: dict[int, tuple[int, ...]] | None, slots: tuple[int, ...]) -> None:
        """Give a worker its slots; ``groups=None`` makes it the scout that measures before the plan is made."""
        self.members[worker].groups, self.members[worker].slots = groups, slots

    def call_up_spares(self, slots_each: int) -> None:
        """Let spares start, each with as many environments as a worker has at most."""
        for number, spare in enumerate(self.spares):
            first = self._wiring.slots + number * self._wiring.slots_per_spare
            spare.slots = tuple(range(first, first + slots_each))
            self._admission.ask(spare.index)

    def call_up(self, workers: Iterable[int]) -> None:
        """These workers shall start as soon as they are admitted."""
        for worker in workers:
            self._admission.ask(worker)

    def tell_scout(self, groups: dict[int, tuple[int, ...]]) -> None:
        """Tell the waiting scout which slots are its own; it goes on with ``let_go``."""
        scout = self.members[0]
        scout.groups, scout.slots = groups, tuple(s for slots in groups.values() for s in slots)
        self._tell_groups(scout)

    def _tell_groups(self, member: Member) -> None:
        """Leave a waiting process the letter that it reads when it may go on."""
        window = self._wiring.mail.worker_window(member.line)
        letter_bytes = self._wiring.mail.put(window, TO_WORKER, member.groups)
        self._wiring.control.to_worker[member.line, TO_LETTER] = letter_bytes

    def let_go(self, digest: str) -> None:
        """The slab has its size: workers that wait for it go on, later ones need not wait."""
        self._launcher.spec = dataclasses.replace(self._launcher.spec, digest=digest)
        self._launcher.may_poll = len(self.members) <= host.cores()
        self._wiring.control.to_worker[:, TO_POLL] = self._launcher.may_poll
        self._launcher.cores = host.one_core_each(len(self.members)) if self._options.pin_workers else ()
        for member in self.members:
            member.went_ns = self._clock.now_ns()
            self._launcher.give_core(member)
            self._wiring.control.to_worker[member.line, TO_GO] = 1
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
        self._unheard.extend(self._children.reports())
        while self._unheard:
            self._hear(self._unheard.popleft())  # one may raise: the others are heard later
        now = self._clock.now_ns()
        for member in self._everyone:
            if member.machine.is_alive:
                self._watch(member, asked_ns, now)
        happenings, self._happenings = self._happenings, []
        return happenings

    def start_due(self) -> None:
        """Start or replace whoever is due. After ``poll``, when what it told is dealt with: orders are written then."""
        now = self._clock.now_ns()
        for member in self._everyone:
            machine = member.machine
            if machine.state is WorkerState.WAITING and machine.generation and now >= machine.restart_at_ns:
                self._replace(member)
        while self._admission.could_admit(now / NS) and (self._lock is None or self._lock.take()):
            index = self._admission.admit(now / NS)
            member = next(m for m in self._everyone if m.index == index)
            self._act(member, member.machine.admitted(now))

    @property
    def _everyone(self) -> list[Member]:
        return [*self.members, *self.spares]

    def _replace(self, member: Member) -> None:
        """A waiting spare steps in at once; otherwise a new generation is started."""
        spare = None if member.is_spare else spares.waiting(self.spares)
        if spare is None:
            self._admission.ask(member.index)
            return
        self._admission.done(member.index)
        spares.swap(member, spare)
        self._wiring.take_line(member.index, member.line)
        member.steps_at_start, member.spawned_ns = self._steps(member), self._clock.now_ns()
        member.went_ns = member.spawned_ns
        # It waits and writes nothing; from here on it has a deadline, also if it should never wake up.
        self._wiring.control.since_ns[member.line, 0] = member.spawned_ns
        self._wiring.control.from_worker[member.line, FROM_SLOT] = 0
        self._wiring.control.from_worker[member.line, FROM_PHASE] = int(Phase.RESTORE)
        self._emit(events.SpareStepped(**about(member)))
        self._tell_groups(member)
        self._launcher.give_core(member)
        self._wiring.control.to_worker[member.line, TO_GO] = 1
        self._wiring.bells[member.line].ring()
        self._admission.ask(spare.index)

    @property
    def fileno(self) -> int:
        """Readable when the keeper has news."""
        return self._children.fileno

    @property
    def next_look_s(self) -> float:
        """How soon ``poll`` should be called again even if nobody rings."""
        states = {member.machine.state for member in self.members}
        return 0.01 if states - {WorkerState.RUNNING, WorkerState.ENDED} else 0.05

    # ---- watching ---------------------------------------------------------------------------------------------------

    def _watch(self, member: Member, asked_ns: Callable[[int], int | None], now: int) -> None:
        if member.machine.state is WorkerState.STARTING:
            self._watch_start(member, now)
        line, since = self._wiring.control.from_worker[member.line], self._wiring.control.since_ns
        phase, slot = Phase(int(line[FROM_PHASE])), int(line[FROM_SLOT]) - 1 if line[FROM_SLOT] else None
        asked = None if member.is_spare else asked_ns(member.index)
        if member.machine.state is WorkerState.STARTING:
            asked = member.went_ns if self._wiring.control.to_worker[member.line, TO_GO] else None
        reading = Reading(phase, int(since[member.line, 0]), asked, slot)
        self._act(member, member.machine.look(reading, now, self._start_scale()))
        if member.machine.state is not WorkerState.KILLING:
            member.keeper.renew()
        elif member.keeper.is_over(now):
            self._children.kill_keeper()  # it does not answer; its channel tells the rest

    def _start_scale(self) -> float:
        """Starts that share cores take longer: deadlines grow with how many start on how many cores."""
        return max(1.0, len(self._admission.starting) / host.cores())

    def _watch_start(self, member: Member, now: int) -> None:
        line = self._wiring.control.from_worker[member.line]
        phase = Phase(int(line[FROM_PHASE]))
        if phase is not member.phase and phase is not Phase.IDLE:
            self._emit(events.PhaseEntered(phase=phase.name.lower(), **about(member)))
        member.phase = phase
        stage = Stage(int(line[FROM_STAGE]))
        if stage is member.stage or stage is Stage.FAILED:
            return
        if member.stage is Stage.NONE and member.is_spare:
            self._release(member.index)  # it waits now, perhaps for ever, and holds up nobody's start
        elif member.stage is Stage.NONE:
            self._hear_hello(member)
        member.stage = stage
        if stage is Stage.READY:
            self._became_ready(member, now)

    def _hear_hello(self, member: Member) -> None:
        """Read the hello, unless the worker failed meanwhile and wrote its last words over it."""
        try:
            hello = self._inquest.letter(member)
        except (pickle.UnpicklingError, EOFError, TransportError):
            hello = None
        if hello is not None and self._inquest.last_words(member) is None:
            self._happenings.append(Happening("hello", member.index, hello=hello))

    def _became_ready(self, member: Member, now: int) -> None:
        member.machine.ready(now)
        member.booted, member.ready_ns, member.attempts = True, now, 0
        self._release(member.index)
        ready = sum(m.machine.state is WorkerState.RUNNING for m in self.members)
        seconds = (now - member.spawned_ns) / NS
        self._emit(events.WorkerReady(seconds=seconds, ready=ready, total=len(self.members), **about(member, rss=True)))
        self._happenings.append(Happening("up", member.index))

    def _act(self, member: Member, commands: list[Command]) -> None:
        for command in commands:
            if command is Command.DUMP:
                self._children.signal(member.line, DUMP_SIGNAL)
            elif command is Command.STOP:
                self._wiring.control.to_worker[member.line, TO_STOP] = 1
                self._wiring.bells[member.line].ring()
            elif command is Command.KILL:
                self._kill(member)
            elif command is Command.SPAWN:
                member.steps_at_start = self._steps(member)
                self._launcher.launch(member, self._clock.now_ns(), self.ledger.quarantined)

    def _kill(self, member: Member) -> None:
        machine = member.machine
        if machine.hung is not None:
            stack = postmortem.log_tail(self._launcher.log_of(member.line), member.log_from)
            phase, late_s = machine.hung.phase.name.lower(), machine.late_ns / NS
            self._emit(events.StackDumped(phase=phase, late_s=late_s, stack=stack, **about(member)))
        reason = "missed its deadline" if machine.hung else "did not stop in time"
        self._emit(events.WorkerKilled(reason=reason, **about(member, rss=True)))
        self._children.kill(member.line)

    # ---- starting ---------------------------------------------------------------------------------------------------

    def _release(self, worker: int) -> None:
        self._admission.done(worker)
        if self._lock is not None and not self._admission.starting:
            self._lock.release()

    # ---- ends -------------------------------------------------------------------------------------------------------

    def _hear(self, report: Report) -> None:
        if report.event == "lost":
            self._keeper_lost()
            return
        member = next(m for m in self._everyone if m.line == report.key)
        if report.event == "spawned":
            member.pid = report.pid
            started = sum(m.booted or m.pid is not None for m in self.members)
            self._emit(events.WorkerSpawned(started=started, total=len(self.members), **about(member)))
        elif report.event == "exited" and report.pid == member.pid:
            self._exited(member, Ending.of(report.status), report.max_rss)
        elif report.event == "spawn_failed":
            raise TransportError(f"worker {report.key} cannot be started: {report.error}; see `ninelives doctor`")

    def _exited(self, member: Member, ending: Ending, rss: int) -> None:
        machine, now = member.machine, self._clock.now_ns()
        planned = machine.retired
        known = about(member, rss_bytes=rss)
        self._emit(events.WorkerExited(cause=ending.describe(), expected=planned is not None, **known))
        fault = None if planned or member.is_spare else self._inquest.fault_of(member, ending, rss)
        self._release(member.index)
        machine.exited(now)
        member.pid = None
        if member.is_spare:
            self._schedule(member, member.backoff.after_fault(made_progress=False), member.attempts, now)
            member.attempts += 1
            return
        if planned:
            self._emit(events.WorkerRecycled(reason=planned, **about(member)))
            machine.wait_until(now, now)
        elif fault is not None:
            self._after_fault(member, fault, now)
        self._happenings.append(Happening("down", member.index, fault))

    def _keeper_lost(self) -> None:
        self._emit(events.KeeperLost(cause="the keeper's channel is closed"))
        self._children.restart()
        self._children.tidy(str(self._run_dir / "scratch"))
        self.farewell.forget_processes()
        for spare in (spare for spare in self.spares if spare.machine.is_alive):
            spare.machine.exited(self._clock.now_ns())
            self._schedule(spare, 0.0, spare.attempts, self._clock.now_ns())
        for member in self.members:
            if member.machine.is_alive:
                fault = postmortem.lost_with_keeper(self._inquest.scene(member))
                self._release(member.index)
                member.machine.exited(self._clock.now_ns())
                self._after_fault(member, fault, self._clock.now_ns())
                self._happenings.append(Happening("down", member.index, fault))

    def slot_scene(self, slot: int) -> postmortem.Scene:
        """The scene of a fault that the worker survived."""
        return self._inquest.slot_scene(next(m for m in self.members if slot in m.slots), slot)

    # ---- after a fault ----------------------------------------------------------------------------------------------

    def _after_fault(self, member: Member, fault: Fault, now: int) -> None:
        self.ledger.note(fault, during_start=not member.booted)
        if not member.booted:
            self._retry_start(member, fault, now)
            return
        self.ledger.charge(fault, now / NS)
        progressed = self._steps(member) - member.steps_at_start >= PROGRESS_STEPS
        member.restarts += 1
        if not set(member.slots) <= self.ledger.quarantined:
            self._schedule(member, member.backoff.after_fault(progressed), member.restarts, now)

    def _retry_start(self, member: Member, fault: Fault, now: int) -> None:
        """Never booted: a mistake in the settings fails fast, anything else is tried again a few times."""
        member.attempts += 1
        if fault.phase == "import" or member.attempts >= self._options.start_attempts:
            raise error_for(fault)
        self._schedule(member, member.backoff.after_fault(made_progress=False), member.attempts, now)

    def _schedule(self, member: Member, delay_s: float, restarts: int, now: int) -> None:
        member.machine.wait_until(now + int(delay_s * NS), now)
        self._emit(events.RestartScheduled(delay_s=delay_s, restarts=restarts, **about(member)))

    def overdue(self) -> tuple[int, str] | None:
        """One running worker that is past a limit, with the reason."""
        for member in self.members:
            limits.trim_log(self._launcher.log_of(member.line))
        return limits.overdue(self.members, self._options, self._clock.now_ns(), self._steps)

    # ---- small facts ------------------------------------------------------------------------------------------------

    def _steps(self, member: Member) -> int:
        slots = () if member.is_spare else member.slots
        return int(self._wiring.control.steps[list(slots)].sum()) if slots else 0
