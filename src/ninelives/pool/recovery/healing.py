"""Brings slots back: writes the orders for the workers that will serve them, and hears what became of them.

Writes a slot's order words only while no worker serves the slot. Decides nothing about rows: whoever asks is told
whether the slot will come back, and cuts it if not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from ninelives.clock import Clock
from ninelives.errors import Fault
from ninelives.events import Event, HealFailed, ReplayProgress, SlotHealed
from ninelives.pool.recovery.journal import Journal
from ninelives.pool.recovery.wounds import OUTSIDE_LIMIT, Wound, Wounds, verdict
from ninelives.spec.restore import Outcome, Restore
from ninelives.supervise.machine import NS
from ninelives.transport.control import Control
from ninelives.transport.mailbox import ORDER, Mailbox


class Healer:
    """Orders under way, and wounds.

    Attributes:
        heals: whether slots are brought back at all.
        orders: those under way, by slot.
        diverged: whether a replay has gone another way than the first time.
    """

    def __init__(
        self,
        heals: bool,
        journal: Journal,
        control: Control,
        mail: Mailbox,
        clock: Clock,
        emit: Callable[[Event], None],
    ) -> None:
        self.heals = heals
        self._journal, self._control, self._mail, self._clock, self._emit = journal, control, mail, clock, emit
        self._wounds = Wounds()
        self.orders: dict[int, Restore] = {}
        self._healing: set[int] = set()
        self.diverged = False

    def take_in(self, slot: int, is_open: bool, fault: Fault | None) -> bool:
        """The slot's environment is gone. Whether it will be brought back; the order is written then."""
        if not self.heals:
            return False
        why_not = self._journal.cannot(slot)
        if why_not:
            self._fail(slot, "cannot", int(self._control.running_length[slot]), why_not)
            return False
        wound = self._wounds.suffer(slot, self._journal.undone(slot, is_open), fault, self._clock.now_ns())
        reason = verdict(wound)
        if reason:
            self._fail(slot, reason, wound.place[1], _words(reason, wound))
            return False
        return self._ordered(slot, is_open, wound)

    def order(self, slot: int, order: Restore) -> None:
        """Bring the slot where somebody wants it; it goes there with its next request."""
        self.renew(slot)
        self._write(slot, order)

    def drop(self, slot: int) -> None:
        """A new episode is wanted on purpose: what is under way for the slot is not needed any more."""
        if slot in self.orders:
            self.renew(slot)

    def renew(self, slot: int) -> None:
        """The slot gets a new environment and a new episode; calls made into the old one are repeated."""
        self.orders.pop(slot, None)
        self._healing.discard(slot)
        self._wounds.forget(slot)
        self._control.restore_bytes[slot] = 0
        if self._journal.has_calls(slot):
            self._write(slot, self._journal.plain_order(slot))

    def hear(self, slots: Iterable[int]) -> list[int]:
        """Their worker is up, or has answered: tell of those that are back; returns those that failed to come back."""
        failed = []
        for slot in slots:
            order = self.orders.get(slot)
            if order is None:
                continue
            if self._control.outcome[slot] == Outcome.RESTORED:
                self._healed(slot, order)
            elif self._control.outcome[slot] != Outcome.NONE:
                failed.append(slot)
        return failed

    def try_older(self, slot: int, is_open: bool) -> bool:
        """A replay did not arrive. Whether there is an older snapshot to begin from; the order is written then."""
        wound, order = self._wounds.of(slot), self.orders.pop(slot, None)
        if wound is None or order is None:
            return False
        if order.beginning is not None and self._journal.is_on_the_way(slot, order.beginning):
            wound.skip_snapshots += 1
            return self._ordered(slot, is_open, wound)
        self._control.restore_bytes[slot] = 0
        step, done = int(self._control.restored_steps[slot]), f"the replay of {order.steps} steps"
        if self._control.outcome[slot] == Outcome.DIFFERS:
            self.diverged = True
            self._fail(slot, "diverged", step, f"{done} differs at step {step}")
        else:
            self._fail(slot, "failed", step, f"{done} failed after step {step}; the worker's log says how")
        return False

    def _ordered(self, slot: int, is_open: bool, wound: Wound) -> bool:
        order = self._order(slot, is_open, wound)
        if order is None:
            self._control.restore_bytes[slot] = 0
            self._fail(slot, "diverged", wound.place[1], "no snapshot led to the same rows, and the journal is shorter")
            return False
        self._write(slot, order)
        self._healing.add(slot)
        return True

    def fault_of(self, slot: int) -> Fault | None:
        """What wounded the slot last, and what was tried; None if it was only moved."""
        wound = self._wounds.of(slot)
        return wound.fault if wound is not None else None

    def tried(self, slot: int) -> str:
        """What was tried for the slot, in vain."""
        wound = self._wounds.of(slot)
        return wound.tried if wound is not None else ""

    def tell_progress(self, slots: Iterable[int]) -> None:
        """Say how far long replays are."""
        for slot in self._healing.intersection(slots):
            order, done = self.orders[slot], int(self._control.restored_steps[slot])
            if done:
                first = order.beginning.length if order.beginning is not None else 0
                self._emit(ReplayProgress(slots=(slot,), done=max(done - first, 0), total=order.steps))

    def can_move(self, slots: Iterable[int]) -> bool:
        """Whether these slots' workers may be replaced at any moment."""
        return self.heals and not self.diverged and not any(self._journal.cannot(slot) for slot in slots)

    def is_healing(self, slot: int) -> bool:
        """Whether the slot is on its way back."""
        return slot in self._healing

    def _order(self, slot: int, is_open: bool, wound: Wound) -> Restore | None:
        if is_open and self._journal.is_autoreset(slot):
            # The episode is over and its successor has a seed of its own: there is nothing to replay.
            self._control.ended[slot] = 1
            order: Restore | None = self._journal.plain_order(slot)
        else:
            order = self._journal.order(slot, is_open, wound.skip_snapshots)
        self._control.begun[slot] = self._journal.episode(slot)
        return order

    def _write(self, slot: int, order: Restore) -> None:
        control = self._control
        control.outcome[slot], control.restored_steps[slot] = Outcome.NONE, 0
        control.restore_number[slot] += 1
        control.restore_bytes[slot] = self._mail.put(slot, ORDER, order)
        self.orders[slot] = order

    def _healed(self, slot: int, order: Restore) -> None:
        del self.orders[slot]
        self._control.restore_bytes[slot] = 0
        wound = self._wounds.of(slot)
        if wound is not None and slot in self._healing:
            self._healing.discard(slot)
            seconds = (self._clock.now_ns() - wound.since_ns) / NS
            first = order.beginning.length if order.beginning is not None else 0
            self._emit(SlotHealed(slots=(slot,), seconds=seconds, replayed=order.steps, from_step=first))

    def _fail(self, slot: int, reason: str, step: int, detail: str) -> None:
        wound = self._wounds.of(slot)
        if wound is not None:
            wound.tried = detail
            wound.fault = None if wound.fault is None else dataclasses.replace(wound.fault, tried=detail)
        action = self._journal.last_action(slot) if reason == "poison" else None
        self._emit(HealFailed(slots=(slot,), reason=reason, step=step, action=action, detail=detail))


def _words(reason: str, wound: Wound) -> str:
    if reason == "poison":
        return f"one replay; the action at step {wound.place[1]} broke the environment again"
    return f"{OUTSIDE_LIMIT - 1} replays; each time the worker was killed again"
