"""Calls into environments and their results. Waits for workers that restart; nothing else may be under way."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ninelives.errors import Fault, UsageError, error_for
from ninelives.pool.data.checks import Slots
from ninelives.pool.data.requests import Asker
from ninelives.pool.recovery.coordinator import Minder
from ninelives.pool.recovery.journal import Journal
from ninelives.pool.workers import postmortem
from ninelives.pool.workers.supervisor import Crew
from ninelives.spec.call import CallRequest, CallResult
from ninelives.spec.phase import Status
from ninelives.spec.plan import Plan
from ninelives.transport.control import Control
from ninelives.transport.mailbox import TO_PARENT, Mailbox


class Calling:
    """Sends one request per slot and brings the answers."""

    def __init__(
        self,
        plan: Plan,
        crew: Crew,
        caller: Any,
        minder: Minder,
        asker: Asker,
        control: Control,
        mail: Mailbox,
        journal: Journal,
    ) -> None:
        self._plan, self._crew, self._caller, self._minder, self._asker = plan, crew, caller, minder, asker
        self._control, self._mail, self._journal = control, mail, journal

    def make(self, slots: Slots, requests: Sequence[CallRequest]) -> tuple[Any, ...]:
        """Call and wait; results in the order of the slots.

        Raises:
            EnvRaisedError: the call raised in an environment, and the episode goes on; or an environment that had to
                be built anew for the call could not be, and its episode is cut.
            WorkerError: a worker died under the call, or a slot that was to be healed first could not be.
        """
        with self._idle(slots):
            asked = dict(zip(slots.tolist(), requests, strict=True))
            while asked:
                self._ask(asked)
                again = self._minder.sort_out(np.array(list(asked), np.int64))
                asked = {slot: asked[slot] for slot in again}  # what they were healed from did not work out
        faults = self._faults(slots)
        results = {slot: self._result(slot) for slot in slots[self._control.mail_bytes[slots] > 0].tolist()}
        for slot, request in zip(slots.tolist(), requests, strict=True):
            if slot in results and not results[slot].is_read:
                self._journal.remember_call(slot, request)  # whatever became of it in other slots
        self._raise(faults)
        for slot, result in results.items():
            if result.error:
                said = {"summary": result.error, "traceback": result.traceback, "refusal": result.refusal}
                raise error_for(postmortem.raised("raised", self._crew.slot_scene(slot), {**said, "phase": "call"}))
        return tuple(results[slot].value for slot in slots.tolist())

    def stand(self, slots: Slots) -> dict[int, str]:
        """Have slots carry out the orders that were written for them. Returns why those failed that raised under it."""
        with self._idle(slots):
            self._ask(dict.fromkeys(slots.tolist(), CallRequest("stand")))
        self._raise(self._faults(slots))
        failed = slots[np.isin(self._control.status[slots], (Status.RAISED, Status.BAD_DATA))].tolist()
        words = {slot: str(self._letter(slot)["summary"]) for slot in failed}
        self._control.status[failed] = Status.OK
        return words

    @contextmanager
    def _idle(self, slots: Slots) -> Iterator[None]:
        """Everybody is there before, and asked for plain steps again afterwards."""
        self.await_up(slots)
        try:
            yield
        finally:
            self._asker.restore()

    def _ask(self, requests: Mapping[int, CallRequest]) -> None:
        self._control.mail_bytes[list(requests)] = 0  # what lies there afterwards is the answer
        self._asker.call(list(requests), list(requests.values()))
        self._asker.await_answers()
        self._caller.collect(len(self._plan.group_slots), 0)

    def await_up(self, slots: Slots) -> None:
        """Calls need an environment: wait for restarts; a quarantined slot has none."""
        workers = set(self._plan.worker_of[slots].tolist())
        while True:
            out = [slot for slot in slots.tolist() if slot in self._crew.ledger.quarantined]
            if out:
                raise UsageError(f"slots {out} are quarantined and have no environment to call")
            if all(self._minder.is_up(worker) for worker in workers):
                return
            time.sleep(0.001)
            self._minder.attend()

    def _faults(self, slots: Slots) -> list[Fault]:
        """What broke under the call; its slots are healed, or cut with a fault row that this stands for."""
        broke = self._minder.take_call_fault()
        return [*self._minder.take_faults(self._minder.desk.faulty(slots)).values(), *([broke] if broke else [])]

    def _raise(self, faults: Sequence[Fault]) -> None:
        if faults:
            self._minder.forget_newest()
            raise error_for(faults[0])

    def _result(self, slot: int) -> CallResult:
        result: CallResult = self._letter(slot)
        return result

    def _letter(self, slot: int) -> Any:
        letter = self._mail.get(slot, TO_PARENT, int(self._control.mail_bytes[slot]))
        self._control.mail_bytes[slot] = 0
        return letter
