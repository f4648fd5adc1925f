"""Asks slots for things other than a plain step of everybody: resets, calls, and steps while something is wrong.

Sets each slot's operation before its group's request is posted. An operation stays as it is until the answer was handed
out, because a new generation may have to serve the same request again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ninelives.clock import Clock
from ninelives.pool.recovery.coordinator import TICK_NS, Minder
from ninelives.pool.recovery.journal import Journal
from ninelives.spec.phase import Op
from ninelives.spec.plan import Plan
from ninelives.transport.control import Control
from ninelives.transport.mailbox import TO_WORKER, Mailbox


class Asker:
    """Posts requests group by group."""

    def __init__(
        self,
        plan: Plan,
        caller: Any,
        minder: Minder,
        control: Control,
        mail: Mailbox,
        journal: Journal,
        clock: Clock,
    ) -> None:
        self._plan, self._caller, self._minder = plan, caller, minder
        self._control, self._mail, self._journal, self._clock = control, mail, journal, clock
        control.op[:] = Op.STEP

    def step(self, group: int) -> None:
        """Step one group of which some slot may be dead, fresh, parked or quarantined."""
        slots, desk = self._plan.group_slots[group], self._minder.desk
        parking = self._minder.park(group)
        ops = desk.ask(slots)
        if parking:
            desk.wait_longer(slot for slot, op in zip(slots, ops, strict=True) if op is Op.RESET)
            ops = [Op.NONE if op is Op.RESET else op for op in ops]
        for slot, op in zip(slots, ops, strict=True):
            if op is Op.RESET:
                self._journal.mark(slot)
                self.prepare_reset(slot, self._journal.begin_again(slot), None)
        self._journal.note(np.array([slot for slot, op in zip(slots, ops, strict=True) if op is Op.STEP], np.int64))
        self._ask(group, slots, ops)

    def step_again(self, slots: Sequence[int]) -> list[int]:
        """Ask these slots once more for the step they failed in; their neighbours have answered. Returns the groups."""
        by_group = self._by_group(slots)
        for group, wanted in by_group:
            self._ask(group, wanted, [Op.STEP] * len(wanted))
        return [group for group, _ in by_group]

    def reset(self, slots: Sequence[int]) -> None:
        """Ask for resets that were prepared; a quarantined slot is answered with a masked row."""
        self._minder.desk.renew(slots, valid=True)
        for group, wanted in self._by_group(slots):
            self._ask(group, wanted, self._minder.desk.ask(wanted))

    def call(self, slots: Sequence[int], requests: Sequence[Any]) -> None:
        """Ask for calls, one request per slot."""
        for slot, request in zip(slots, requests, strict=True):
            self._journal.mark(slot)
            self._control.ask_bytes[slot] = self._mail.put(slot, TO_WORKER, request)
        for group, wanted in self._by_group(slots):
            self._ask(group, wanted, [Op.CALL] * len(wanted))

    def prepare_reset(self, slot: int, seed: int | None, options: Any) -> None:
        """Write down with what the slot will be reset, and the number of the episode that this begins."""
        self._control.number[slot] = self._control.begun[slot] + 1
        self._control.seeded[slot] = seed is not None
        self._control.seed[slot] = seed or 0
        self._control.ask_bytes[slot] = 0 if options is None else self._mail.put(slot, TO_WORKER, options)

    def await_answers(self) -> None:
        """Until everything under way is answered."""
        while self._caller.wait(self._caller.inflight_count, TICK_NS) < self._caller.inflight_count:
            self._minder.attend()
        self._minder.attend()

    def restore(self) -> None:
        """Back to plain steps, if nothing is under way; what is under way is restored when it is handed out."""
        if not self._caller.inflight_count:
            self._control.op[self._control.op != Op.STEP] = Op.STEP
            self._control.ask_bytes[:] = 0

    def _ask(self, group: int, slots: Sequence[int], ops: Sequence[Op]) -> None:
        """Ask these slots of a group, not its others; or answer at once if there is nothing to ask."""
        now = self._clock.now_ns()
        self._control.op[self._plan.group_rows[group]] = Op.NONE
        self._control.op[list(slots)] = ops
        self._minder.sent_ns[group] = now
        if all(op is Op.NONE for op in ops):
            self._caller.answer(group)
            return
        if not self._minder.is_up(self._plan.group_worker[group]):
            self._minder.hold(group, now)
        self._caller.post([group])

    def _by_group(self, slots: Sequence[int]) -> list[tuple[int, list[int]]]:
        wanted: dict[int, list[int]] = {}
        for slot in sorted(slots):
            wanted.setdefault(int(self._plan.group_of[slot]), []).append(slot)
        return list(wanted.items())
