"""Asks slots for anything but the fast step of all of them: resets, calls, and steps while something is wrong.

Sets each slot's operation before its group's request is posted. An operation stays as it is until the answer was handed
out, because a new generation may have to serve the same request again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ninelives.errors import Fault, UsageError, error_for
from ninelives.pool.recovery.coordinator import TICK_NS, Coordinator
from ninelives.pool.recovery.journal import Journal
from ninelives.pool.runtime import Runtime
from ninelives.pool.workers import postmortem
from ninelives.spec.call import CallRequest, CallResult
from ninelives.spec.phase import Op, Status
from ninelives.spec.plan import Slots
from ninelives.transport.mailbox import TO_PARENT, TO_WORKER


class Requests:
    """Posts requests group by group, and waits for the answers of calls."""

    def __init__(self, runtime: Runtime, coordinator: Coordinator, journal: Journal) -> None:
        self._plan, self._caller, self._clock = runtime.plan, runtime.caller, runtime.clock
        self._control, self._mail = runtime.control, runtime.mail
        self._coordinator, self._journal = coordinator, journal
        self._control.op[:] = Op.STEP

    # ---- steps and resets -------------------------------------------------------------------------------------------

    def step(self, group: int) -> None:
        """Step one group of which some slot may be dead, fresh, parked or quarantined."""
        slots, status = self._plan.group_slots[group], self._coordinator.status
        parking = self._coordinator.park(group)
        ops = status.ask(slots)
        if parking:
            status.wait_longer(slot for slot, op in zip(slots, ops, strict=True) if op is Op.RESET)
            ops = [Op.NONE if op is Op.RESET else op for op in ops]
        for slot, op in zip(slots, ops, strict=True):
            if op is Op.RESET:
                self._journal.mark(slot)
                self.prepare_reset(slot, self._journal.begin_again(slot), None)
        self._journal.note(np.array([slot for slot, op in zip(slots, ops, strict=True) if op is Op.STEP], np.int64))
        self._ask(group, slots, ops)

    def step_again(self, slots: Sequence[int]) -> list[int]:
        """Ask these slots again for the step they failed in; the rest of their groups has answered.

        Returns the groups.
        """
        by_group = self._by_group(slots)
        for group, wanted in by_group:
            self._ask(group, wanted, [Op.STEP] * len(wanted))
        return [group for group, _ in by_group]

    def prepare_reset(self, slot: int, seed: int | None, options: Any) -> None:
        """Write down with what the slot will be reset, and the number of the episode that this begins."""
        self._control.number[slot] = self._control.begun[slot] + 1
        self._control.seeded[slot] = seed is not None
        self._control.seed[slot] = seed or 0
        self._control.ask_bytes[slot] = 0 if options is None else self._mail.put(slot, TO_WORKER, options)

    def reset(self, slots: Sequence[int]) -> None:
        """Ask for resets that were prepared; a quarantined slot is answered with a masked row."""
        self._coordinator.status.renew(slots, valid=True)
        for group, wanted in self._by_group(slots):
            self._ask(group, wanted, self._coordinator.status.ask(wanted))

    def await_answers(self) -> None:
        """Until everything under way is answered."""
        while self._caller.wait(self._caller.inflight_count, TICK_NS) < self._caller.inflight_count:
            self._coordinator.attend()
        self._coordinator.attend()

    def drain(self) -> None:
        """Wait for answers under way and forget them. A slot that failed is healed and asked again, or cut."""
        while self._caller.inflight_count:
            self.await_answers()
            self._caller.collect(len(self._plan.group_slots), 0)
            self.step_again(self._coordinator.sort_out(np.arange(self._plan.num_envs)))
        self._coordinator.forget_faults()

    def restore(self) -> None:
        """Back to plain steps, if nothing is under way; otherwise that happens when the answers are handed out."""
        if not self._caller.inflight_count:
            self._control.op[self._control.op != Op.STEP] = Op.STEP
            self._control.ask_bytes[:] = 0

    def _ask(self, group: int, slots: Sequence[int], ops: Sequence[Op]) -> None:
        """Ask these slots of a group, not its others; or answer at once if there is nothing to ask."""
        now = self._clock.now_ns()
        self._control.op[self._plan.group_rows[group]] = Op.NONE
        self._control.op[list(slots)] = ops
        self._coordinator.sent_ns[group] = now
        if all(op is Op.NONE for op in ops):
            self._caller.answer(group)
            return
        if not self._coordinator.is_up(self._plan.group_worker[group]):
            self._coordinator.hold(group, now)
        self._caller.post([group])

    def _by_group(self, slots: Sequence[int]) -> list[tuple[int, list[int]]]:
        wanted: dict[int, list[int]] = {}
        for slot in sorted(slots):
            wanted.setdefault(int(self._plan.group_of[slot]), []).append(slot)
        return list(wanted.items())

    # ---- calls ------------------------------------------------------------------------------------------------------

    def call(self, slots: Slots, requests: Sequence[CallRequest]) -> tuple[Any, ...]:
        """Call into environments, one request per slot, and wait; results in the order of the slots.

        Waits for workers that restart. Nothing else may be under way.

        Raises:
            EnvRaisedError: the call raised in an environment, and the episode goes on; or an environment that had to
                be built anew for the call could not be, and its episode is cut.
            WorkerError: a worker died under the call, or a slot that was to be healed first could not be.
        """
        with self._idle(slots):
            asked = dict(zip(slots.tolist(), requests, strict=True))
            while asked:
                self._ask_calls(asked)
                again = self._coordinator.sort_out(np.array(list(asked), np.int64))
                asked = {slot: asked[slot] for slot in again}  # the snapshot they were healed from did not work out
        faults = self._faults(slots)
        results = {slot: self._result(slot) for slot in slots[self._control.mail_bytes[slots] > 0].tolist()}
        for slot, request in zip(slots.tolist(), requests, strict=True):
            if slot in results and not results[slot].is_read:
                self._journal.remember_call(slot, request)  # also if the call failed in other slots
        self._raise(faults)
        for slot, result in results.items():
            if result.error:
                report = {"summary": result.error, "traceback": result.traceback, "refusal": result.refusal}
                scene = self._coordinator.scene_of(slot)
                raise error_for(postmortem.raised("raised", scene, {**report, "phase": "call"}))
        return tuple(results[slot].value for slot in slots.tolist())

    def carry_out_orders(self, slots: Slots) -> dict[int, str]:
        """Have slots carry out the restore orders that were written for them. Returns why some of them failed."""
        with self._idle(slots):
            self._ask_calls(dict.fromkeys(slots.tolist(), CallRequest("stand")))
        self._raise(self._faults(slots))
        failed = slots[np.isin(self._control.status[slots], (Status.RAISED, Status.BAD_DATA))].tolist()
        reasons = {slot: str(self._message(slot)["summary"]) for slot in failed}
        self._control.status[failed] = Status.OK
        return reasons

    def await_up(self, slots: Slots) -> None:
        """Calls need an environment: wait for restarts; a quarantined slot has none."""
        workers = set(self._plan.worker_of[slots].tolist())
        while True:
            out = [slot for slot in slots.tolist() if slot in self._coordinator.quarantined]
            if out:
                raise UsageError(f"slots {out} are quarantined and have no environment to call")
            if all(self._coordinator.is_up(worker) for worker in workers):
                return
            time.sleep(0.001)
            self._coordinator.attend()

    @contextmanager
    def _idle(self, slots: Slots) -> Iterator[None]:
        """All workers are up before, and all slots are asked for plain steps again afterwards."""
        self.await_up(slots)
        try:
            yield
        finally:
            self.restore()

    def _ask_calls(self, requests: Mapping[int, CallRequest]) -> None:
        self._control.mail_bytes[list(requests)] = 0  # what is there afterwards is the answer
        for slot, request in requests.items():
            self._journal.mark(slot)
            self._control.ask_bytes[slot] = self._mail.put(slot, TO_WORKER, request)
        for group, wanted in self._by_group(list(requests)):
            self._ask(group, wanted, [Op.CALL] * len(wanted))
        self.await_answers()
        self._caller.collect(len(self._plan.group_slots), 0)

    def _faults(self, slots: Slots) -> list[Fault]:
        """What broke under the call; its slots are healed, or cut with a fault row that this stands for."""
        broke = self._coordinator.take_call_fault()
        return [*self._coordinator.status.take_faults(slots).values(), *([broke] if broke else [])]

    def _raise(self, faults: Sequence[Fault]) -> None:
        if faults:
            self._coordinator.forget_newest()
            raise error_for(faults[0])

    def _result(self, slot: int) -> CallResult:
        result: CallResult = self._message(slot)
        return result

    def _message(self, slot: int) -> Any:
        message = self._mail.get(slot, TO_PARENT, int(self._control.mail_bytes[slot]))
        self._control.mail_bytes[slot] = 0
        return message
