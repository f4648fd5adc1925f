"""Looks after the workers on the pool's behalf: between two waits, who came up, who went down, who waits too long.

Turns the crew's news into verdicts at the desk and settled requests at the exchange. Reads and writes the words of a
group only while they belong to the parent: its worker is dead and reaped, or has answered.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rookery.clock import Clock
from rookery.errors import Fault, PoolExhaustedError, error_for
from rookery.events import EpisodeStarted
from rookery.pool import evidence
from rookery.pool.crew import Crew
from rookery.pool.desk import Desk, Life
from rookery.pool.eventlog import EventLog
from rookery.pool.member import Happening
from rookery.spec.autoreset import Autoreset
from rookery.spec.options import PoolOptions
from rookery.spec.phase import Op, Status
from rookery.spec.plan import Plan
from rookery.supervise.machine import NS
from rookery.transport.control import Control
from rookery.transport.mailbox import TO_PARENT, Mailbox

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
    ) -> None:
        self._plan, self._crew, self._caller, self._control, self._mail = plan, crew, caller, control, mail
        self._options, self._clock, self._log = options, clock, log
        self._next_step = Autoreset.parse(options.autoreset) is Autoreset.NEXT_STEP
        self._group_of = {slot: g for g, slots in enumerate(plan.group_slots) for slot in slots}
        self.desk = Desk(plan.num_envs)
        self.sent_ns = np.zeros(len(plan.group_slots), np.int64)
        self.next_tick = self._next_limits = clock.now_ns() + TICK_NS
        self.exhausted: PoolExhaustedError | None = None
        self.patient = False
        self._faults: dict[int, Fault] = {}
        self._newest: Fault | None = None
        self._broke_ns: dict[int, int] = {}
        self._held: dict[int, int] = {}
        self._retiring: tuple[int, str] | None = None

    @property
    def careful(self) -> bool:
        """Whether any slot needs more than the fast path."""
        return self.desk.troubled or self._retiring is not None

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
        """Settle the dead worker's groups: their words and rows are ours now."""
        for g in self._plan.groups_of(happening.worker):
            slots = self._plan.group_slots[g]
            if not self._caller.is_open(g):
                self.desk.worker_died((), (), slots)
            elif self.desk.worker_died(slots, [int(self._control.op[s]) for s in slots], ()):
                self._caller.settle(g)
                self._control.ended[list(slots)] = 0  # an ending that nobody will see is none
            else:
                self.hold(g, now)
        if happening.fault is not None:
            self._broke(happening.fault, now)
        self._quarantine_spent()
        if self._retiring is not None and self._retiring[0] == happening.worker:
            self._retiring = None

    def _came_up(self, worker: int, now: int) -> None:
        for g in self._plan.groups_of(worker):
            self._held.pop(g, None)
            self.sent_ns[g] = now  # its deadline counts from when it can serve

    def _expire_holds(self, now: int) -> None:
        """A synchronous batch waits for a restarting slot only so long, then goes on with a masked row."""
        if not self._plan.is_synchronous or self.patient:
            return
        for g, since in list(self._held.items()):
            if now - since >= self._options.restart_wait_s * NS and not self.is_up(self._plan.group_worker[g]):
                self.desk.wait_longer(self._plan.group_slots[g])
                self._caller.settle(g)
                del self._held[g]

    def _look_at_limits(self, now: int) -> None:
        self._next_limits = now + LIMITS_NS
        self._retiring = self._retiring or self._crew.overdue()
        self._log.sample(now, self._crew, self._control, self._plan)

    # ---- slots ------------------------------------------------------------------------------------------------------

    def _broke(self, fault: Fault, now: int) -> None:
        self._newest = fault
        for slot in fault.slots:
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

    def slot_broke(self, slot: int, now: int) -> None:
        """An environment raised or returned bad data; its worker lives and will build it anew at the next reset."""
        if self.desk.life[slot] == Life.OUT:
            self.desk.never_true(slot)
            self._control.status[slot] = Status.OK
            return
        if self._control.op[slot] == Op.NONE:
            return
        words = self._mail.get(slot, TO_PARENT, int(self._control.mail_bytes[slot]))
        kind = "bad_data" if self._control.status[slot] == Status.BAD_DATA else "raised"
        fault = evidence.raised(kind, self._crew.slot_scene(slot), words)
        self._control.mail_bytes[slot] = 0
        self._control.status[slot] = Status.OK
        self.desk.slot_broke(slot)
        self._broke(fault, now)
        self._crew.ledger.note(fault)
        try:
            self._crew.ledger.charge(fault, now / NS)
        except PoolExhaustedError as error:
            self.exhausted = error
            raise
        self._quarantine_spent()

    def _quarantine_spent(self) -> None:
        for slot in self._crew.ledger.quarantined:
            if self.desk.life[slot] != Life.OUT:
                self.desk.quarantine(slot, unanswered=self._caller.is_open(self._group_of[slot]))
                self._control.op[slot] = Op.NONE
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
