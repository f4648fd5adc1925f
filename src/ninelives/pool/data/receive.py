"""Receives answers and hands out batches: the fast path while nothing is wrong, the careful path otherwise.

A dead or late worker is noticed in the slow branch of the same wait that waits for answers; there is no watcher thread.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ninelives.errors import NotPendingError
from ninelives.pool.batch import Batch
from ninelives.pool.data.gather import Gatherer
from ninelives.pool.data.requests import Requests
from ninelives.pool.data.turns import LOOK_NS, WAKE_NS, Turns
from ninelives.pool.recovery.coordinator import TICK_NS, Coordinator
from ninelives.pool.recovery.journal import Journal
from ninelives.pool.runtime import Runtime
from ninelives.spec.phase import Attention, Op
from ninelives.spec.plan import Slots
from ninelives.transport.mailbox import STATE

ORDINARY = Attention.MAIL | Attention.ENDED | Attention.INFO
"""What the fast path can deal with."""


class Receiver:
    """Waits for groups, and turns their answers into batches.

    Attributes:
        last_slots: slots of the newest first-ready batch.
        last_groups: their groups.
    """

    def __init__(
        self, runtime: Runtime, coordinator: Coordinator, requests: Requests, gatherer: Gatherer, journal: Journal
    ) -> None:
        self._plan, self._caller, self._clock = runtime.plan, runtime.caller, runtime.clock
        self._control, self._mail = runtime.control, runtime.mail
        self._coordinator, self._requests, self._gatherer, self._journal = coordinator, requests, gatherer, journal
        self._status, self._used = coordinator.status, coordinator.healing.used
        self._all_groups = len(self._plan.group_slots)
        self._batch_groups = self._all_groups
        if not self._plan.is_synchronous:
            self._batch_groups = self._plan.batch_size // len(self._plan.group_slots[0])
        self._turns = Turns(self._plan.num_envs, self._plan.batch_size)
        self._next_group, self._asked_again, self._carried = 0, False, Attention.NONE
        self.last_slots = np.zeros(0, np.int64)
        self.last_groups: list[int] = []

    def recv(self) -> Batch:
        """Wait for the first slots that are ready and return their rows."""
        need = min(self._batch_groups, self._caller.inflight_count)
        if not need:
            raise NotPendingError("nothing is under way: call send() (or reset()) before recv()")
        if need < self._all_groups and self._turns.is_due:
            self._await_left_out()
        batch: Batch | None = None
        if need < self._all_groups and not self._asked_again and not self._coordinator.careful:
            found = self._caller.recv_some(need, self._next_group, TICK_NS, self._coordinator.next_tick)
            if found is not None:
                batch = self._partial_batch(*found)
        while batch is None:
            batch = self._recv_once(need)
        return batch

    def _recv_once(self, need: int) -> Batch | None:
        """The rows of groups that are ready; None if some slot was asked again."""
        self._await(need)
        if need == self._all_groups and not self._status.troubled and not self._asked_again:
            return self.full_batch(self._caller.collect_all())
        groups, attention = self._caller.collect(need, self._next_group)
        return self._partial_batch(groups, attention | self._carried)

    def full_batch(self, attention: int) -> Batch | None:
        """Every group has answered: their batch, or None if some slot was asked again."""
        slots = self._gatherer.all_slots
        if attention & Attention.INFO:
            attention |= self.check_infos(None)
        if attention & ~ORDINARY:
            attention = self._look_closer(slots, list(range(self._all_groups)), attention)
            if attention < 0:
                return None
        if attention & ~ORDINARY or self._status.troubled:
            return self.hand_out(slots, attention)
        if attention & Attention.ENDED and self._used.collects:
            self._keep_episodes(slots)
        return self._gatherer.full_batch(attention)

    def _partial_batch(self, groups: list[int], attention: int) -> Batch | None:
        self._next_group = (groups[-1] + 1) % self._all_groups
        if len(groups) == self._all_groups:
            groups.sort()
        slots = self._gatherer.slots_of(groups, self._plan)
        self.last_slots, self.last_groups = slots, groups
        self._turns.note(slots)
        if attention & Attention.INFO:
            attention |= self.check_infos(slots)
        if attention & ~ORDINARY:
            attention = self._look_closer(slots, groups, attention)
            if attention < 0:
                return None
        if attention & ~ORDINARY or self._status.troubled or self._asked_again:
            return self.hand_out(slots, attention)
        if attention & Attention.ENDED and self._used.collects:
            self._keep_episodes(slots)
        return self._gatherer.partial_batch(slots, attention)

    def check_infos(self, slots: Slots | None) -> int:
        """Learn new schemas of infos (None: of all slots). What cannot be read becomes a fault; returns its bit."""
        unreadable = self._gatherer.reader.find_unreadable(slots)
        for slot in unreadable:
            self._gatherer.reader.report(slot)
        return Attention.FAULT if unreadable else Attention.NONE

    def _await(self, need: int) -> None:
        caller, coordinator = self._caller, self._coordinator
        if coordinator.careful:
            coordinator.attend()
        while caller.wait(need, TICK_NS) < need:
            coordinator.attend()
        if coordinator.careful or self._clock.now_ns() >= coordinator.next_tick:
            coordinator.attend()  # a worker that answers is up: learn of it before its rows are judged

    def _await_left_out(self) -> None:
        """Wait for slots that did not come for long, so that the next batches begin with them."""
        at_any_rate, late = self._turns.left_out()
        if late:
            end = self._clock.now_ns() + WAKE_NS
            self._await_groups(
                self._asked_groups(late),
                lambda g: self._coordinator.sleeps(self._plan.group_worker[g]) and self._clock.now_ns() < end,
            )
        if at_any_rate:
            self._await_groups(self._asked_groups(at_any_rate), self._is_up)

    def _asked_groups(self, slots: list[int]) -> list[int]:
        groups = sorted(set(self._plan.group_of[slots].tolist()))
        return [g for g in groups if self._caller.is_inflight(g) and self._is_up(g)]

    def _is_up(self, group: int) -> bool:
        """A worker that restarts, or heals its slots, holds up no other."""
        return self._coordinator.is_up(self._plan.group_worker[group])

    def _await_groups(self, groups: list[int], is_awaited: Callable[[int], bool]) -> None:
        """Wait until each of these groups has answered or is not awaited any more."""
        caller, ready = self._caller, 0
        while any(caller.is_open(g) and is_awaited(g) for g in groups):
            need = min(ready + 1, caller.inflight_count)
            ready = caller.wait(need, LOOK_NS)
            if self._clock.now_ns() >= self._coordinator.next_tick:
                self._coordinator.attend()
        if groups:
            self._next_group = groups[0]

    def _look_closer(self, slots: Slots, groups: list[int], attention: int) -> int:
        """Keep snapshots, deal with faults. Returns what else to look at; -1 if some slot was asked again.

        Slots that failed and can be healed are asked again; the rest of the batch stays ready until they answer.
        """
        if attention & Attention.STATE:
            self._keep_snapshots(slots)
            attention &= ~Attention.STATE
        if not attention & Attention.FAULT:
            return attention
        again = self._coordinator.sort_out(slots)
        if not again:
            return attention
        self._asked_again, self._carried = True, attention & ~Attention.FAULT
        for group in set(groups) - set(self._requests.step_again(again)):
            self._caller.answer(group)
        return -1

    def hand_out(self, slots: Slots, attention: int) -> Batch:
        """The careful batch: slots that came back, masked rows, slots that are alive again."""
        now, status = self._clock.now_ns(), self._status
        self._asked_again, self._carried = False, Attention.NONE
        self._coordinator.healing.note_outcomes(slots.tolist())
        masked, silent, faults = status.masked(slots), status.silent(slots), status.take_faults(slots)
        for slot in slots[masked].tolist():
            if self._control.torn[slot]:
                self._gatherer.blank(slot)
        up = (self._coordinator.is_up(worker) for worker in self._plan.worker_of[slots].tolist())
        self._coordinator.came_back(status.handed_out(slots, up), now)
        self._control.op[slots] = Op.STEP
        self._coordinator.raise_newest()
        self._coordinator.notices.give()
        return self._gatherer.careful_batch(slots, attention, masked, silent, faults)

    def _keep_episodes(self, slots: Slots) -> None:
        self._used.keep(slots[self._control.terminated[slots] | self._control.truncated[slots]])

    def _keep_snapshots(self, slots: Slots) -> None:
        for slot in slots[self._control.state_bytes[slots] > 0].tolist():
            nbytes = int(self._control.state_bytes[slot])
            self._journal.keep_snapshot(slot, self._mail.get_bytes(slot, STATE, nbytes))
