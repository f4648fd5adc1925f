"""Looks after the workers on the pool's behalf: between two waits, who came up, who went down, who waits too long.

Turns the crew's news into verdicts at the desk and settled requests at the exchange. Reads and writes the words of a
group only while they belong to the parent: its worker is dead and reaped, or has answered.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from ninelives.clock import Clock
from ninelives.errors import Fault, PoolExhaustedError, error_for
from ninelives.events import EpisodeStarted
from ninelives.pool.eventlog import EventLog
from ninelives.pool.recovery.healing import Healer
from ninelives.pool.recovery.slot_status import Desk, Life
from ninelives.pool.workers import postmortem
from ninelives.pool.workers.supervisor import Crew
from ninelives.pool.workers.worker import Happening
from ninelives.spec.autoreset import Autoreset
from ninelives.spec.options import PoolOptions
from ninelives.spec.phase import Op, Status
from ninelives.spec.plan import Plan
from ninelives.supervise.machine import NS
from ninelives.transport.control import Control
from ninelives.transport.mailbox import TO_PARENT, Mailbox

TICK_NS = 50_000_000
"""How often a busy pool looks after its workers; an idle wait looks as often."""

LIMITS_NS = 1_000_000_000
"""How often ages, sizes and logs are looked at."""


class Minder:
    """What is wrong just now: held requests, faults not yet handed out, a worker about to be replaced."""

    def __init__(
        self,
        plan: Plan,
        crew: Crew,
        caller: Any,
        control: Control,
        mail: Mailbox,
        options: PoolOptions,
        clock: Clock,
        log: EventLog,
        healer: Healer,
    ) -> None:
        self.healer = healer
        self._plan, self._crew, self._caller, self._control, self._mail = plan, crew, caller, control, mail
        self._options, self._clock, self._log = options, clock, log
        self._next_step = Autoreset.parse(options.autoreset) is Autoreset.NEXT_STEP
        self.desk = Desk(plan.num_envs)
        self.sent_ns = np.zeros(len(plan.group_slots), np.int64)
        self.next_tick = self._next_limits = clock.now_ns() + TICK_NS
        self.exhausted: PoolExhaustedError | None = None
        self.patient = False
        self._faults: dict[int, Fault] = {}
        self._call_fault: Fault | None = None
        self._newest: Fault | None = None
        self._broke_ns: dict[int, int] = {}
        self._held: dict[int, int] = {}
        self._retiring: tuple[int, str] | None = None

    @property
    def careful(self) -> bool:
        """Whether any slot needs more than the fast path."""
        return self.desk.troubled or self._retiring is not None or bool(self.healer.orders)

    def attend(self) -> None:
        """One look at the workers.

        Raises:
            PoolExhaustedError: a budget is spent.
        """
        if self.exhausted is not None:
            raise self.exhausted
        now = self._clock.now_ns()
        self.next_tick = now + TICK_NS
        try:
            news = self._crew.poll(self._asked_ns)
        except PoolExhaustedError as error:
            self.exhausted = error
            raise
        self._caller.extra_fd = self._crew.fileno  # a new keeper has another channel
        for happening in news:
            if happening.kind == "down":
                self._went_down(happening, now)
            elif happening.kind == "up":
                self._came_up(happening.worker, now)
        self._crew.start_due()
        self._expire_holds(now)
        if now >= self._next_limits:
            self._look_at_limits(now)

    def hold(self, group: int, now: int) -> None:
        """A request waits for a worker that is not there yet."""
        self._held[group] = now

    def is_up(self, worker: int) -> bool:
        """Whether a worker serves requests."""
        return self._crew.members[worker].is_up

    def take_faults(self, slots: npt.NDArray[np.int64]) -> dict[int, Fault]:
        """The faults to hand out with these slots' rows, once."""
        return {slot: self._faults.pop(slot) for slot in slots.tolist() if slot in self._faults}

    def forget_faults(self) -> None:
        """A reset begins everything anew."""
        self._faults.clear()
        self.forget_newest()

    def forget_newest(self) -> None:
        """The caller tells of it in another way."""
        self._newest = None

    # ---- workers ----------------------------------------------------------------------------------------------------

    def _asked_ns(self, worker: int) -> int | None:
        """When the worker's oldest open request was sent."""
        open_since = [int(self.sent_ns[g]) for g in self._plan.groups_of(worker) if self._caller.is_open(g)]
        return min(open_since) if open_since else None

    def _went_down(self, happening: Happening, now: int) -> None:
        """Heal or settle the dead worker's groups: their words and rows are ours now."""
        for g in self._plan.groups_of(happening.worker):
            back = self._take_in(g, happening.fault)
            lost = [slot for slot in self._plan.group_slots[g] if slot not in back]
            if happening.fault is not None:
                for slot in lost:
                    self._broke(self.healer.fault_of(slot) or happening.fault, [slot], now)
            if not self._caller.is_open(g):
                if lost:
                    self.desk.worker_died((), (), lost)
            elif back:
                self._keep_open(g, back, happening.fault, now)
            else:
                self._settle(g, now)
            for slot in lost:
                self.healer.renew(slot)
        self._quarantine_spent()
        if self._retiring is not None and self._retiring[0] == happening.worker:
            self._retiring = None

    def _take_in(self, group: int, fault: Fault | None) -> set[int]:
        """Those slots of a dead worker's group that will be brought back."""
        is_open, out = self._caller.is_open(group), self._crew.ledger.quarantined
        back = set()
        for slot in self._plan.group_slots[group]:
            op = int(self._control.op[slot]) if is_open else Op.NONE
            healable = self.desk.life[slot] == Life.LIVE and op != Op.RESET and slot not in out
            # A slot that was not asked has answered before: nothing of it is under way.
            if healable and self.healer.take_in(slot, op != Op.NONE, fault):
                back.add(slot)
        return back

    def _keep_open(self, group: int, back: set[int], fault: Fault | None, now: int) -> None:
        """Some slots of a group come back: the next generation serves what was asked of them, the others are cut."""
        for slot in self._plan.group_slots[group]:
            op = int(self._control.op[slot])
            if op == Op.CALL:
                self._call_fault = fault
            if slot in back and op == Op.CALL:
                self._control.op[slot] = Op.NONE  # whoever called is told; the call is not made again
            elif slot not in back and op != Op.RESET:
                self.desk.cut(slot, asked=op != Op.NONE)
                self._control.op[slot] = Op.NONE
                self._control.ended[slot] = 0
        if self._control.op[list(self._plan.group_slots[group])].any():
            self.hold(group, now)
        else:
            self._caller.settle(group)

    def _settle(self, group: int, now: int) -> None:
        slots = self._plan.group_slots[group]
        if self.desk.worker_died(slots, [int(self._control.op[s]) for s in slots], ()):
            self._caller.settle(group)
            self._control.ended[list(slots)] = 0  # an ending that nobody will see is none
        else:
            self.hold(group, now)

    def _came_up(self, worker: int, now: int) -> None:
        for g in self._plan.groups_of(worker):
            self._held.pop(g, None)
            self.sent_ns[g] = now  # its deadline counts from when it can serve
        for slot in self.healer.hear(self._plan.slots_of(worker)):
            is_asked = self._caller.is_open(int(self._plan.group_of[slot])) and self._control.op[slot] != Op.NONE
            if is_asked or self._control.status[slot] == Status.NOT_RESTORED:
                continue  # the worker's answer says so, or has said so, and is sorted out when it is handed out
            self._not_restored(slot, is_asked=False, now=now)

    def _not_restored(self, slot: int, is_asked: bool, now: int) -> bool:
        """A replay did not arrive; whether another is tried."""
        if self.healer.try_older(slot, is_asked):
            return True
        fault = self.healer.fault_of(slot)
        if fault is None:
            fault = postmortem.not_moved(self._crew.slot_scene(slot), self.healer.tried(slot))
        self._broke(fault, [slot], now)
        self.desk.cut(slot, asked=is_asked)
        self.healer.renew(slot)
        return False

    def take_call_fault(self) -> Fault | None:
        """What broke a worker under a call, once."""
        fault, self._call_fault = self._call_fault, None
        return fault

    def _expire_holds(self, now: int) -> None:
        """A synchronous batch waits for a restarting slot only so long, then goes on with a masked row."""
        if not self._plan.is_synchronous or self.patient:
            return
        for g, since in list(self._held.items()):
            if any(self.healer.is_healing(slot) for slot in self._plan.group_slots[g]):
                continue  # its row will be a true one: worth waiting for
            if now - since >= self._options.restart_wait_s * NS and not self.is_up(self._plan.group_worker[g]):
                self.desk.wait_longer(self._plan.group_slots[g])
                self._caller.settle(g)
                del self._held[g]

    def _look_at_limits(self, now: int) -> None:
        self._next_limits = now + LIMITS_NS
        self.healer.tell_progress(range(self._plan.num_envs))
        all_up = all(member.is_up for member in self._crew.members)
        if self._retiring is None and all_up and (overdue := self._crew.overdue()):
            if self._can_recycle(overdue[0]):
                self._crew.retire(*overdue)
            else:
                self._retiring = overdue
        self._log.sample(now, self._crew, self._control, self._plan)

    def _can_recycle(self, worker: int) -> bool:
        """Whether a worker can be replaced in mid-episode: its slots can be healed, and replays have not failed yet."""
        slots = self._plan.slots_of(worker)
        return self.healer.can_move(slots) and all(self.desk.life[slot] in (Life.LIVE, Life.OUT) for slot in slots)

    # ---- slots ------------------------------------------------------------------------------------------------------

    def _broke(self, fault: Fault, slots: Iterable[int], now: int) -> None:
        """These slots lost their episodes by the fault."""
        for slot in slots:
            self._newest = fault
            self._faults[slot] = fault
            self._broke_ns.setdefault(slot, now)

    def came_back(self, slots: list[int], now: int) -> None:
        """These slots have begun a new episode after a fault."""
        for slot in slots:
            seconds = (now - self._broke_ns.pop(slot, now)) / NS
            self._log.emit(EpisodeStarted(slots=(slot,), seconds=seconds))

    def raise_newest(self) -> None:
        """With ``on_fault="raise"``: raise what broke since the last time. All is settled: the pool can go on."""
        fault, self._newest = self._newest, None
        if fault is not None and self._options.on_fault == "raise":
            raise error_for(fault)

    def sort_out(self, slots: npt.NDArray[np.int64]) -> list[int]:
        """Look at the answers that tell of faults. Returns the slots to ask again: they are being healed."""
        now = self._clock.now_ns()
        told = slots[self._control.status[slots] != Status.OK]
        return [slot for slot in told.tolist() if self._slot_broke(slot, now)]

    def _slot_broke(self, slot: int, now: int) -> bool:
        """An environment failed and its worker lives, which will build it anew. Whether the slot is being healed."""
        if self.desk.life[slot] == Life.OUT:
            self.desk.never_true(slot)
            self._control.status[slot] = Status.OK
            return False
        if self._control.op[slot] == Op.NONE:
            return False
        if self._control.status[slot] == Status.NOT_RESTORED:
            self._control.status[slot] = Status.OK
            return self._not_restored(slot, is_asked=True, now=now)
        fault = self._hear_failure(slot, now)
        healable = self._control.op[slot] == Op.STEP and self.desk.life[slot] == Life.LIVE
        if healable and self.healer.take_in(slot, True, fault):
            return True
        if self.desk.life[slot] != Life.OUT:
            self.desk.slot_broke(slot)
            self.healer.renew(slot)
        self._broke(self.healer.fault_of(slot) or fault, [slot], now)
        return False

    def _hear_failure(self, slot: int, now: int) -> Fault:
        """What the environment said; charged to its budget."""
        words = self._mail.get(slot, TO_PARENT, int(self._control.mail_bytes[slot]))
        kind = "bad_data" if self._control.status[slot] == Status.BAD_DATA else "raised"
        fault = postmortem.raised(kind, self._crew.slot_scene(slot), words)
        self._control.mail_bytes[slot] = 0
        self._control.status[slot] = Status.OK
        self._crew.ledger.note(fault)
        try:
            self._crew.ledger.charge(fault, now / NS)
        except PoolExhaustedError as error:
            self.desk.slot_broke(slot)
            self.exhausted = error
            raise
        if slot in self._crew.ledger.quarantined:
            self.desk.slot_broke(slot)
        self._quarantine_spent()
        return fault

    def _quarantine_spent(self) -> None:
        for slot in self._crew.ledger.quarantined:
            if self.desk.life[slot] != Life.OUT:
                self.desk.quarantine(slot, unanswered=self._caller.is_open(int(self._plan.group_of[slot])))
                self._control.op[slot] = Op.NONE
                self.healer.renew(slot)
        for g, slots in enumerate(self._plan.group_slots):
            if self._crew.ledger.quarantined.issuperset(slots) and self._caller.is_open(g):
                self._caller.settle(g)
                self._held.pop(g, None)

    def park(self, group: int) -> bool:
        """Slots of a worker that is to be replaced stop at the end of their episode; the last one ends the worker.

        Returns whether parked slots of this group still have to wait for their neighbours.
        """
        if self._retiring is None or self._plan.group_worker[group] != self._retiring[0]:
            return False
        worker, reason = self._retiring
        for slot in self._plan.group_slots[group]:
            ended = bool(self._control.ended[slot])
            if self.desk.life[slot] == Life.LIVE and (ended or self._control.running_length[slot] == 0):
                self.desk.renew([slot], valid=self._next_step and ended)
        if any(self.desk.life[s] == Life.LIVE for s in self._plan.slots_of(worker)):
            return True
        self._crew.retire(worker, reason)  # before anything is posted: after its stop word a worker serves no more
        return False
