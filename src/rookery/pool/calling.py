"""Calls into environments and their results. Waits for workers that restart; nothing else may be under way."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from rookery.errors import UsageError, error_for
from rookery.pool import evidence
from rookery.pool.asker import Asker
from rookery.pool.checks import Slots
from rookery.pool.crew import Crew
from rookery.pool.journal import Journal
from rookery.pool.minder import Minder
from rookery.spec.call import CallRequest, CallResult
from rookery.spec.plan import Plan
from rookery.transport.control import Control
from rookery.transport.mailbox import TO_PARENT, Mailbox


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
            EnvRaisedError: the call raised in an environment; the episode goes on.
            WorkerError: a worker died under the call.
        """
        self.await_up(slots)
        try:
            self._asker.call(slots.tolist(), requests)
            self._asker.await_answers()
            self._caller.collect(len(self._plan.group_slots), 0)
        finally:
            self._asker.restore()
        self._raise_fault(slots)
        results = [self._result(slot) for slot in slots.tolist()]
        for slot, request, result in zip(slots.tolist(), requests, results, strict=True):
            if not result.is_read:
                self._journal.remember_call(slot, request)
        for slot, result in zip(slots.tolist(), results, strict=True):
            if result.error:
                words = {"summary": result.error, "traceback": result.traceback, "phase": "call"}
                raise error_for(evidence.raised("raised", self._crew.slot_scene(slot), words))
        return tuple(result.value for result in results)

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

    def _raise_fault(self, slots: Slots) -> None:
        """A worker died under the call; its slots are healed, or cut with a fault row that this stands for."""
        broke = self._minder.take_call_fault()
        faults = [*self._minder.take_faults(self._minder.desk.faulty(slots)).values(), *([broke] if broke else [])]
        if faults:
            self._minder.forget_newest()
            raise error_for(faults[0])

    def _result(self, slot: int) -> CallResult:
        # No letter: the slot was to be brought somewhere first, did not get there, and refused. Nothing was called, so
        # nothing is remembered. Whoever ordered a "stand" looks at its outcome; any other call came upon a slot that is
        # still being healed, and what becomes of that its next row says.
        if not self._control.mail_bytes[slot]:
            return CallResult(None, is_read=True)
        result: CallResult = self._mail.get(slot, TO_PARENT, int(self._control.mail_bytes[slot]))
        self._control.mail_bytes[slot] = 0
        return result
