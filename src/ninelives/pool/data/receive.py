"""Receives answers and hands out batches: the fast way while nothing is wrong, the careful way otherwise.

A dead or late worker is noticed in the slow branch of the same wait that waits for answers; no thread watches.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ninelives.clock import Clock, SystemClock
from ninelives.errors import UsageError
from ninelives.native import native_module
from ninelives.pool.batch import Batch
from ninelives.pool.data.checks import Slots
from ninelives.pool.data.gather import Gatherer
from ninelives.pool.data.requests import Asker
from ninelives.pool.recovery.coordinator import TICK_NS, Minder
from ninelives.pool.recovery.journal import Journal
from ninelives.spec.phase import Attention, Op
from ninelives.spec.plan import Plan
from ninelives.transport.control import Control
from ninelives.transport.mailbox import STATE, Mailbox

ORDINARY = Attention.MAIL | Attention.ENDED
"""What the fast way can deal with."""


class Receiver:
    """Waits for groups, and turns their answers into batches."""

    def __init__(
        self,
        plan: Plan,
        caller: Any,
        minder: Minder,
        asker: Asker,
        gather: Gatherer,
        control: Control,
        mail: Mailbox,
        journal: Journal,
        clock: Clock,
    ) -> None:
        self._caller, self._minder, self._asker, self._gather = caller, minder, asker, gather
        self._control, self._mail, self._journal, self._clock = control, mail, journal, clock
        self._desk = minder.desk
        self._plan, self._all_groups = plan, len(plan.group_slots)
        self._batch_groups = self._all_groups
        if not plan.is_synchronous:
            self._batch_groups = plan.batch_size // len(plan.group_slots[0])
        # Groups of one size, the usual case: their slots are found natively.
        is_even = len({len(slots) for slots in plan.group_slots}) == 1
        self._native: Any = native_module("ninelives.pool._native") if is_even else None
        self._even = np.stack(plan.group_rows) if is_even else None
        # The native exchange reads the machine's own clock.
        recv_some = getattr(caller, "recv_some", None) if isinstance(clock, SystemClock) else None
        self._swift: Any = None
        if self._native is not None and recv_some is not None:
            self._swift = partial(self._native.recv_batch, recv_some, self._even, gather.recipe)
        self._turn, self._mended, self._carried = 0, False, Attention.NONE
        self.last_slots = np.zeros(0, np.int64)
        self.last_groups: list[int] = []

    def recv(self) -> Batch:
        """Wait for the first slots that are ready and return their rows."""
        need = min(self._batch_groups, self._caller.inflight_count)
        if not need:
            raise UsageError("nothing is under way: call send() (or reset()) before recv()")
        batch: Batch | None = None
        if need < self._all_groups and self._swift is not None and not self._mended and not self._minder.careful:
            # Some groups in one native call; nothing comes of it if it is time to look after the workers.
            found = self._swift(need, self._turn, TICK_NS, self._minder.next_tick)
            if found is not None:
                groups, slots, attention, batch = found
                batch = self._some(groups, need, attention) if batch is None else self._passed_on(groups, slots, batch)
        while batch is None:
            batch = self._recv_once(need)
        return batch

    def _passed_on(self, groups: list[int], slots: Slots, batch: Batch) -> Batch:
        """A batch with nothing to look at: remember whose it is."""
        self._turn = (groups[-1] + 1) % self._all_groups
        self.last_slots, self.last_groups = slots, groups
        return batch

    def _recv_once(self, need: int) -> Batch | None:
        """The rows of those who are ready; None if some slot was asked again."""
        self._await(need)
        if need == self._all_groups and not self._desk.troubled and not self._mended:
            return self.everybody(self._caller.collect_all())
        groups, attention = self._caller.collect(need, self._turn)
        return self._some(groups, need, attention | self._carried)

    def everybody(self, attention: int) -> Batch | None:
        """Every group has answered: their batch, or None if some slot was asked again."""
        slots = self._gather.all_slots
        if attention & ~ORDINARY:
            attention = self._looked_closer(slots, list(range(self._all_groups)), attention)
            if attention < 0:
                return None
        if attention & ~ORDINARY or self._desk.troubled:
            return self.hand_out(slots, attention)
        return self._gather.everybody(attention)

    def _some(self, groups: list[int], need: int, attention: int) -> Batch | None:
        self._turn = (groups[-1] + 1) % self._all_groups
        if need == self._all_groups:
            groups.sort()
        slots = self._slots_of(groups) if self._native is None else self._native.slots_of(groups, self._even)
        self.last_slots, self.last_groups = slots, groups
        if attention & ~ORDINARY:
            attention = self._looked_closer(slots, groups, attention)
            if attention < 0:
                return None
        if attention & ~ORDINARY or self._desk.troubled or self._mended:
            return self.hand_out(slots, attention)
        return self._gather.some(slots, attention)

    def _await(self, need: int) -> None:
        caller, minder = self._caller, self._minder
        if minder.careful:
            minder.attend()
        while caller.wait(need, TICK_NS) < need:
            minder.attend()
        if minder.careful or self._clock.now_ns() >= minder.next_tick:
            minder.attend()  # a worker that answers is up: learn of it before its rows are judged

    def _looked_closer(self, slots: Slots, groups: list[int], attention: int) -> int:
        """Snapshots are kept, faults are sorted out. Returns what else to look at; -1 if some slot was asked again.

        Slots that failed and can be healed are asked again; the rest of the batch lies ready until they answer.
        """
        if attention & Attention.STATE:
            self._keep_snapshots(slots)
            attention &= ~Attention.STATE
        if not attention & Attention.FAULT:
            return attention
        again = self._minder.sort_out(slots)
        if not again:
            return attention
        self._mended, self._carried = True, attention & ~Attention.FAULT
        for group in set(groups) - set(self._asker.step_again(again)):
            self._caller.answer(group)
        return -1

    def hand_out(self, slots: Slots, attention: int) -> Batch:
        """The careful batch: slots that came back, masked rows, slots that are alive again."""
        now = self._clock.now_ns()
        self._mended, self._carried = False, Attention.NONE
        self._minder.healer.hear(slots.tolist())
        masked, silent = self._desk.masked(slots), self._desk.silent(slots)
        faults = self._minder.take_faults(self._desk.faulty(slots))
        for slot in slots[masked].tolist():
            if self._control.torn[slot]:
                self._gather.blank(slot)
        up = (self._minder.is_up(worker) for worker in self._plan.worker_of[slots].tolist())
        self._minder.came_back(self._desk.handed_out(slots, up), now)
        self._control.op[slots] = Op.STEP
        self._minder.raise_newest()
        return self._gather.careful(slots, attention, masked, silent, faults)

    def _keep_snapshots(self, slots: Slots) -> None:
        for slot in slots[self._control.state_bytes[slots] > 0].tolist():
            nbytes = int(self._control.state_bytes[slot])
            self._journal.keep_snapshot(slot, self._mail.get_bytes(slot, STATE, nbytes))

    def _slots_of(self, groups: list[int]) -> Slots:
        return np.concatenate([self._plan.group_rows[g] for g in groups])
