"""Counts faults against budgets: which slots are quarantined, and when the pool must give up."""

from __future__ import annotations

from collections.abc import Callable

from ninelives import events
from ninelives.errors import Fault, PoolExhaustedError
from ninelives.spec.options import PoolOptions
from ninelives.supervise.budget import RestartBudget


class FaultBudget:
    """Charges faults to slots and to the pool, and reports them as events."""

    def __init__(self, slots: int, options: PoolOptions, emit: Callable[[events.Event], None]) -> None:
        self._slots, self._options, self._emit = slots, options, emit
        self._budget = RestartBudget(
            slots, options.max_restarts_per_slot, options.max_restarts, options.restart_window_s
        )
        self.quarantined: set[int] = set()
        self.last_fault: dict[int, Fault] = {}
        self.faults = 0

    def note(self, fault: Fault, during_start: bool = False) -> None:
        """Remember and report a fault; nothing is charged yet."""
        self.faults += 1
        for slot in _guilty(fault):
            self.last_fault[slot] = fault
        self._emit(
            events.FaultSeen(
                kind=fault.kind,
                phase=fault.phase,
                summary=fault.summary,
                culprit=fault.culprit,
                signal=fault.signal,
                exit_code=fault.exit_code,
                seed=fault.seed,
                last_action=fault.last_action,
                stderr_tail=fault.stderr_tail,
                traceback=fault.traceback,
                during_start=during_start,
                worker=fault.worker,
                slots=fault.slots,
                generation=fault.generation,
                pid=fault.pid,
            )
        )

    def charge(self, fault: Fault, now_s: float) -> None:
        """Charge a fault to its slot and to the pool.

        Raises:
            PoolExhaustedError: the pool's budget is spent, or a slot's with ``on_exhausted='raise'``.
        """
        spent, exhausted = self._budget.note(_guilty(fault), now_s)
        for slot in sorted(spent - self.quarantined):
            self._quarantine(slot, fault.worker, now_s)
        options, window = self._options, f"{self._options.restart_window_s:g} s"
        if spent and options.on_exhausted == "raise":
            self._give_up(
                f"slots {sorted(spent)} broke more than {options.max_restarts_per_slot} times in {window}; raise "
                "max_restarts_per_slot, use on_exhausted='quarantine', or fix the environment"
            )
        if exhausted:
            self._give_up(
                f"more than {options.max_restarts} faults in {window}; raise max_restarts, or fix the environment"
            )
        if len(self.quarantined) == self._slots:
            self._give_up(
                f"every slot is quarantined: each broke more than {options.max_restarts_per_slot} times in {window}; "
                "fix the environment, or raise max_restarts_per_slot"
            )

    def _quarantine(self, slot: int, worker: int, now_s: float) -> None:
        self.quarantined.add(slot)
        restarts = self._budget.restarts_of(slot, now_s)
        self._emit(
            events.SlotQuarantined(
                slots=(slot,), worker=worker, restarts=restarts, window_s=self._options.restart_window_s
            )
        )

    def _give_up(self, reason: str) -> None:
        raise PoolExhaustedError(reason, self.last_fault)


def _guilty(fault: Fault) -> tuple[int, ...]:
    """The slot that was being served; all of the worker's if none was."""
    return fault.slots if fault.culprit is None else (fault.culprit,)
