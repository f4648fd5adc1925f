"""Looks after the workers between two waits: which came up, which went down, which slots heal and which are cut.

Turns the supervisor's changes into slot statuses and settled requests. Reads and writes the words of a group only while
they belong to the parent: its worker is dead and reaped, or has answered.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from ninelives.errors import Fault, PoolExhaustedError, error_for
from ninelives.events import EpisodeStarted
from ninelives.pool.metrics import PoolMetrics, measure
from ninelives.pool.notices import Notices
from ninelives.pool.recovery.healing import Healing
from ninelives.pool.recovery.slot_status import SlotLife, SlotStatus
from ninelives.pool.runtime import Runtime
from ninelives.pool.workers import postmortem
from ninelives.pool.workers.supervisor import Supervisor
from ninelives.pool.workers.worker import WorkerChange
from ninelives.spec.autoreset import Autoreset
from ninelives.spec.phase import Op, Status
from ninelives.supervise.machine import NS
from ninelives.transport.control import FROM_ASLEEP

TICK_NS = 50_000_000
"""How often a busy pool looks after its workers; an idle wait looks as often."""

LIMITS_NS = 1_000_000_000
"""How often ages, sizes and logs are looked at."""


class Coordinator:
    """What is wrong just now: held requests, faults not yet raised, a worker about to be replaced.

    Attributes:
        status: what each slot owes the learner.
        healing: brings slots back.
        sent_ns: when each group was last asked.
        next_tick: when the workers are next to be looked after.
        exhausted: the error of a spent budget; the pool can do nothing more.
        patient: a reset is under way, which waits for restarting slots however long that takes.
        notices: what the user is to be warned of.
    """

    def __init__(self, runtime: Runtime, supervisor: Supervisor, healing: Healing) -> None:
        self._plan, self._caller, self._control = runtime.plan, runtime.caller, runtime.control
        self._mail, self._options, self._clock, self._log = runtime.mail, runtime.options, runtime.clock, runtime.log
        self._supervisor, self.healing = supervisor, healing
        self._next_step = Autoreset.parse(self._options.autoreset) is Autoreset.NEXT_STEP
        self.status = SlotStatus(self._plan.num_envs)
        self.sent_ns = np.zeros(len(self._plan.group_slots), np.int64)
        self._started_ns = self._clock.now_ns()
        self.next_tick = self._next_limits = self._started_ns + TICK_NS
        self.exhausted: PoolExhaustedError | None = None
        self.patient = False
        self.notices = Notices(runtime.resources.run_dir if self._options.run_dir is not None else None)
        self._call_fault: Fault | None = None
        self._newest: Fault | None = None
        self._broke_ns: dict[int, int] = {}
        self._held: dict[int, int] = {}
        self._retiring: tuple[int, str] | None = None

    @property
    def careful(self) -> bool:
        """Whether any slot needs more than the fast path."""
        return self.status.troubled or self._retiring is not None or bool(self.healing.orders)

    @property
    def quarantined(self) -> set[int]:
        """Slots that broke too often and have no environment."""
        return self._supervisor.budget.quarantined

    def attend(self) -> None:
        """Look after the workers once.

        Raises:
            PoolExhaustedError: a budget is spent.
        """
        if self.exhausted is not None:
            raise self.exhausted
        now = self._clock.now_ns()
        self.next_tick = now + TICK_NS
        try:
            changes = self._supervisor.poll(self._asked_ns)
        except PoolExhaustedError as error:
            self.exhausted = error
            raise
        self._caller.extra_fd = self._supervisor.fileno  # a new keeper has another channel
        for change in changes:
            if change.kind == "down":
                self._went_down(change, now)
            elif change.kind == "up":
                self._came_up(change.worker, now)
        self._supervisor.start_due()
        self._expire_holds(now)
        if now >= self._next_limits:
            self._look_at_limits(now)

    def measure(self) -> PoolMetrics:
        """Per-slot numbers since the start."""
        seconds = (self._clock.now_ns() - self._started_ns) / NS
        return measure(self._control, self._plan, seconds, self._supervisor.workers, self._supervisor.budget)

    def hold(self, group: int, now: int) -> None:
        """A request waits for a worker that is not up yet."""
        self._held[group] = now

    def is_up(self, worker: int) -> bool:
        """Whether a worker serves requests."""
        return self._supervisor.workers[worker].is_up

    def sleeps(self, worker: int) -> bool:
        """Whether a worker is asleep. One that was rung and still is waits for a core."""
        line = self._supervisor.workers[worker].line
        return bool(self._control.from_worker[line, FROM_ASLEEP])

    def scene_of(self, slot: int) -> postmortem.Scene:
        """The scene of a fault that the worker of this slot survived."""
        return self._supervisor.scene_of(slot)

    # ---- faults that the user is still to see -----------------------------------------------------------------------

    def forget_faults(self) -> None:
        """A reset begins everything anew."""
        self.status.forget_faults()
        self.forget_newest()

    def forget_newest(self) -> None:
        """The newest fault reaches the user in another way."""
        self._newest = None

    def raise_newest(self) -> None:
        """With ``on_fault="raise"``: raise what broke since the last time. All is settled: the pool can go on."""
        fault, self._newest = self._newest, None
        if fault is not None and self._options.on_fault == "raise":
            raise error_for(fault)

    def take_call_fault(self) -> Fault | None:
        """What broke a worker under a call, once."""
        fault, self._call_fault = self._call_fault, None
        return fault

    def came_back(self, slots: list[int], now: int) -> None:
        """These slots have begun a new episode after a fault."""
        for slot in slots:
            seconds = (now - self._broke_ns.pop(slot, now)) / NS
            self._log.emit(EpisodeStarted(slots=(slot,), seconds=seconds))

    def _broke(self, fault: Fault, slots: Iterable[int], now: int) -> None:
        """These slots lost their episodes by the fault."""
        for slot in slots:
            self._newest = fault
            self.status.owe_fault(slot, fault)
            if not self.patient and self._options.on_fault != "raise":
                self.notices.lost(slot, fault)
            self._broke_ns.setdefault(slot, now)

    # ---- workers ----------------------------------------------------------------------------------------------------

    def _asked_ns(self, worker: int) -> int | None:
        """When the worker's oldest open request was sent."""
        open_since = [int(self.sent_ns[g]) for g in self._plan.groups_of(worker) if self._caller.is_open(g)]
        return min(open_since) if open_since else None

    def _went_down(self, change: WorkerChange, now: int) -> None:
        """Heal or settle the dead worker's groups: their words and rows belong to the parent now."""
        for g in self._plan.groups_of(change.worker):
            broken = self._void_answers(g)
            back = self._heal_group(g, change.fault)
            lost = [slot for slot in self._plan.group_slots[g] if slot not in back]
            if change.fault is not None:
                for slot in (slot for slot in lost if slot not in broken):
                    self._broke(self.healing.fault_of(slot) or change.fault, [slot], now)
            self._cut_undone(lost)
            if not self._caller.is_open(g):
                if lost:
                    self.status.worker_died((), (), lost)
            elif back:
                self._keep_open(g, back, change.fault, now)
            else:
                self._settle(g, now)
            for slot in lost:
                self.healing.renew(slot)
        self._quarantine_spent()
        if self._retiring is not None and self._retiring[0] == change.worker:
            self._retiring = None

    def _void_answers(self, group: int) -> set[int]:
        """Deal with the failures that a dead worker reported; returns the slots that lost their episodes by them.

        Words of an answer that was never given are void. After one that was given, a slot that can be healed goes back
        to before the step it failed in, and is asked again when the group is handed out.
        """
        slots = np.array(self._plan.group_slots[group])
        if self._caller.is_open(group):
            self._control.status[slots] = Status.OK
            return set()
        if not self._caller.is_inflight(group):
            return set()
        failed = slots[(self._control.status[slots] != Status.OK) & (self._control.op[slots] == Op.STEP)]
        again = self.sort_out(failed)
        self._control.status[again] = Status.UNDONE
        return set(failed.tolist()).difference(again)

    def _cut_undone(self, lost: list[int]) -> None:
        """Of slots that do not come back, those whose last answer was a failure: it is no true row."""
        for slot in lost:
            if self._control.status[slot] == Status.UNDONE:
                self._control.status[slot] = Status.OK
                self.status.cut(slot, asked=True)

    def _heal_group(self, group: int, fault: Fault | None) -> set[int]:
        """Those slots of a dead worker's group that will be brought back."""
        is_open = self._caller.is_open(group)
        back = set()
        for slot in self._plan.group_slots[group]:
            is_undone = is_open or self._control.status[slot] == Status.UNDONE
            op = int(self._control.op[slot]) if is_undone else Op.NONE
            is_live = self.status.life[slot] == SlotLife.LIVE and slot not in self.quarantined
            # A slot that was not asked has answered before: nothing of it is under way.
            if is_live and op != Op.RESET and self.healing.try_to_heal(slot, op != Op.NONE, fault):
                back.add(slot)
        return back

    def _keep_open(self, group: int, back: set[int], fault: Fault | None, now: int) -> None:
        """Some slots of a group come back: the next generation serves what was asked of them, the others are cut."""
        for slot in self._plan.group_slots[group]:
            op = int(self._control.op[slot])
            if op == Op.CALL:
                self._call_fault = fault
            if slot in back and op == Op.CALL:
                self._control.op[slot] = Op.NONE  # the caller gets an error; the call is not made again
            elif slot not in back and op != Op.RESET:
                self.status.cut(slot, asked=op != Op.NONE)
                self._control.op[slot] = Op.NONE
                self._control.ended[slot] = 0
        if self._control.op[list(self._plan.group_slots[group])].any():
            self.hold(group, now)
        else:
            self._caller.settle(group)

    def _settle(self, group: int, now: int) -> None:
        slots = self._plan.group_slots[group]
        if self.status.worker_died(slots, [int(self._control.op[s]) for s in slots], ()):
            self._caller.settle(group)
            self._control.ended[list(slots)] = 0  # an ending that is never handed out does not count
        else:
            self.hold(group, now)

    def _came_up(self, worker: int, now: int) -> None:
        for g in self._plan.groups_of(worker):
            self._held.pop(g, None)
            self.sent_ns[g] = now  # its deadline counts from when it can serve
        for slot in self.healing.note_outcomes(self._plan.slots_of(worker)):
            is_asked = self._caller.is_open(int(self._plan.group_of[slot])) and self._control.op[slot] != Op.NONE
            if is_asked or self._control.status[slot] in (Status.NOT_RESTORED, Status.UNDONE):
                continue  # the worker's answer says so, or has said so, and is dealt with when it is handed out
            self._not_restored(slot, is_asked=False, now=now)

    def _not_restored(self, slot: int, is_asked: bool, now: int) -> bool:
        """A replay did not reach its end; whether another one is tried."""
        if self.healing.try_again(slot, is_asked):
            return True
        if self.healing.used.differs:
            self.notices.used_differs()
        fault = self.healing.fault_of(slot)
        if fault is None:
            fault = postmortem.not_moved(self.scene_of(slot), self.healing.tried(slot))
        self._broke(fault, [slot], now)
        self.status.cut(slot, asked=is_asked)
        self.healing.renew(slot)
        return False

    def _expire_holds(self, now: int) -> None:
        """A synchronous batch waits for a restarting slot only so long, then goes on with a masked row."""
        if not self._plan.is_synchronous or self.patient:
            return
        for g, since in list(self._held.items()):
            if any(self.healing.is_healing(slot) for slot in self._plan.group_slots[g]):
                continue  # its row will be a true one: worth waiting for
            if now - since >= self._options.restart_wait_s * NS and not self.is_up(self._plan.group_worker[g]):
                self.status.wait_longer(self._plan.group_slots[g])
                self._caller.settle(g)
                del self._held[g]

    # ---- slots ------------------------------------------------------------------------------------------------------

    def sort_out(self, slots: npt.NDArray[np.int64]) -> list[int]:
        """Deal with answers that report faults. Returns the slots to ask again: they are being healed."""
        now = self._clock.now_ns()
        failed = slots[self._control.status[slots] != Status.OK]
        return [slot for slot in failed.tolist() if self._slot_broke(slot, now)]

    def _slot_broke(self, slot: int, now: int) -> bool:
        """An environment failed and its worker lives, which will build it anew. Whether the slot is being healed."""
        if self.status.life[slot] == SlotLife.OUT:
            self.status.never_true(slot)
            self._control.status[slot] = Status.OK
            return False
        if self._control.op[slot] == Op.NONE:
            return False
        if self._control.status[slot] == Status.UNDONE:
            self._control.status[slot] = Status.OK
            return True
        if self._control.status[slot] == Status.NOT_RESTORED:
            self._control.status[slot] = Status.OK
            return self._not_restored(slot, is_asked=True, now=now)
        fault = self._read_failure(slot, now)
        healable = self._control.op[slot] == Op.STEP and self.status.life[slot] == SlotLife.LIVE
        if healable and self.healing.try_to_heal(slot, True, fault):
            return True
        if self.status.life[slot] != SlotLife.OUT:
            self.status.slot_broke(slot)
            self.healing.renew(slot)
        self._broke(self.healing.fault_of(slot) or fault, [slot], now)
        return False

    def _read_failure(self, slot: int, now: int) -> Fault:
        """The fault that the worker reported for an environment; charged to its budget."""
        report = postmortem.slot_report(self._mail, slot, int(self._control.mail_bytes[slot]))
        kind = "bad_data" if self._control.status[slot] == Status.BAD_DATA else "raised"
        fault = postmortem.raised(kind, self.scene_of(slot), report)
        self._control.mail_bytes[slot] = 0
        self._control.status[slot] = Status.OK
        budget = self._supervisor.budget
        budget.note(fault)
        try:
            budget.charge(fault, now / NS)
        except PoolExhaustedError as error:
            self.status.slot_broke(slot)
            self.exhausted = error
            raise
        if slot in budget.quarantined:
            self.status.slot_broke(slot)
        self._quarantine_spent()
        return fault

    def _quarantine_spent(self) -> None:
        for slot in self.quarantined:
            if self.status.life[slot] != SlotLife.OUT:
                self.status.quarantine(slot, unanswered=self._caller.is_open(int(self._plan.group_of[slot])))
                self._control.op[slot] = Op.NONE
                self.healing.renew(slot)
                self.notices.quarantined(slot, self._supervisor.budget.last_fault.get(slot))
        for g, slots in enumerate(self._plan.group_slots):
            if self.quarantined.issuperset(slots) and self._caller.is_open(g):
                self._caller.settle(g)
                self._held.pop(g, None)

    # ---- planned replacement ----------------------------------------------------------------------------------------

    def _look_at_limits(self, now: int) -> None:
        self._next_limits = now + LIMITS_NS
        self.healing.report_progress(range(self._plan.num_envs))
        all_up = all(process.is_up for process in self._supervisor.workers)
        if self._retiring is None and all_up and (overdue := self._supervisor.overdue()):
            if self._can_recycle(overdue[0]):
                self._supervisor.retire(*overdue)
            else:
                self._retiring = overdue
        self._log.sample(now, self.measure)

    def _can_recycle(self, worker: int) -> bool:
        """Whether a worker can be replaced in mid-episode: its slots can be healed, and no replay has failed yet."""
        slots = self._plan.slots_of(worker)
        settled = all(self.status.life[slot] in (SlotLife.LIVE, SlotLife.OUT) for slot in slots)
        return self.healing.can_move(slots) and settled

    def park(self, group: int) -> bool:
        """Slots of a worker that is to be replaced stop at the end of their episode; the last one ends the worker.

        Returns whether parked slots of this group still have to wait for other slots of the worker.
        """
        if self._retiring is None or self._plan.group_worker[group] != self._retiring[0]:
            return False
        worker, reason = self._retiring
        for slot in self._plan.group_slots[group]:
            ended = bool(self._control.ended[slot])
            if self.status.life[slot] == SlotLife.LIVE and (ended or self._control.running_length[slot] == 0):
                self.status.renew([slot], valid=self._next_step and ended)
        if any(self.status.life[s] == SlotLife.LIVE for s in self._plan.slots_of(worker)):
            return True
        # Before anything is posted: after its stop word a worker serves no more.
        self._supervisor.retire(worker, reason)
        return False
