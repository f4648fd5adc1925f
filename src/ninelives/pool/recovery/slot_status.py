"""What each slot owes the learner when something is wrong with it: which row comes next, and with which fault.

A slot is LIVE until its episode dies. Then, in this order, the learner sees: one *fault row* (truncated, masked), any
number of *waiting rows* (masked, only while a synchronous batch cannot wait longer), and one *fresh row* (masked, the
first observation of a new episode). Every row from the fault to the fresh one has ``valid=False``; so a valid row is
always a true transition from the row before it.

Pure bookkeeping over small arrays; the pool does the sending.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ninelives.errors import Fault
from ninelives.spec.phase import Op


class SlotLife(IntEnum):
    """The state of a slot's episode."""

    LIVE = 0
    LOST = 1  # the episode died; the fault row is still owed
    FRESH = 2  # the fault row was handed out; a new episode is owed
    OUT = 3  # quarantined


class RowKind(IntEnum):
    """What the row now being produced is."""

    TRUE = 0  # the worker's own
    FAULT = 1  # the episode ended here
    WAITING = 2  # nothing happened
    FRESH = 3  # first observation after a fault: masked
    RENEWED = 4  # first observation after an asked reset or a recycling: valid


class SlotStatus:
    """The state of every slot, and the kind of its next row.

    Attributes:
        life: a ``SlotLife`` per slot.
        row: a ``RowKind`` per slot.
        troubled: whether any slot is not LIVE.
    """

    def __init__(self, slots: int) -> None:
        self.life: npt.NDArray[np.uint8] = np.zeros(slots, np.uint8)
        self.row: npt.NDArray[np.uint8] = np.zeros(slots, np.uint8)
        self._renew: npt.NDArray[np.bool_] = np.zeros(slots, np.bool_)
        self._owes_fault: npt.NDArray[np.bool_] = np.zeros(slots, np.bool_)
        self._faults: dict[int, Fault] = {}
        self.troubled = False

    def ask(self, slots: Sequence[int]) -> list[Op]:
        """What to ask of a group's slots now; sets the kinds of their rows. All ``NONE``: the parent answers itself."""
        owes_fault = any(self.life[s] == SlotLife.LOST for s in slots)
        return [self._ask_one(s, owes_fault) for s in slots]

    def _ask_one(self, slot: int, owes_fault: bool) -> Op:
        life = SlotLife(int(self.life[slot]))
        if life is SlotLife.LIVE:
            return self._answer(slot, RowKind.TRUE, Op.STEP)
        if life is SlotLife.LOST:
            self.life[slot] = SlotLife.FRESH
            return self._answer(slot, RowKind.FAULT, Op.NONE)
        if life is SlotLife.FRESH and not owes_fault:
            return self._answer(slot, RowKind.RENEWED if self._renew[slot] else RowKind.FRESH, Op.RESET)
        if life is SlotLife.OUT and self._owes_fault[slot]:
            self._owes_fault[slot] = False
            return self._answer(slot, RowKind.FAULT, Op.NONE)
        return self._answer(slot, RowKind.WAITING, Op.NONE)

    def _answer(self, slot: int, kind: RowKind, op: Op) -> Op:
        self.row[slot] = kind
        return op

    def worker_died(self, open_slots: Sequence[int], ops: Sequence[int], idle_slots: Iterable[int]) -> bool:
        """A group's worker is gone. Returns whether the open request is answered now (else a new generation does it).

        A request that only wanted resets is left open: the next generation serves it. ``idle_slots`` have nothing open:
        their last answer is true and may still be handed out, but their episode is lost.
        """
        self.troubled = True
        for slot in idle_slots:
            self._lose(slot)
        cut = any(op in (Op.STEP, Op.CALL) for op in ops)
        for slot, op in zip(open_slots, ops, strict=True):
            if op == Op.NONE:
                self._lose(slot)
            elif op == Op.RESET:
                if cut:
                    self.row[slot], self._renew[slot] = RowKind.WAITING, False
            elif self.life[slot] != SlotLife.OUT:
                self.row[slot], self.life[slot] = RowKind.FAULT, SlotLife.FRESH
        return cut

    def _lose(self, slot: int) -> None:
        """The slot's episode is lost: a running one, or a fresh one that is not yet handed out."""
        answered = self.life[slot] == SlotLife.FRESH and self.row[slot] in (RowKind.FRESH, RowKind.RENEWED)
        if self.life[slot] == SlotLife.LIVE or answered:
            self.life[slot], self._renew[slot] = SlotLife.LOST, False

    def cut(self, slot: int, asked: bool) -> None:
        """The slot's episode could not be brought back; ``asked``: the row now being produced is its fault row."""
        self.troubled = True
        if asked and self.life[slot] != SlotLife.OUT:
            self.row[slot], self.life[slot] = RowKind.FAULT, SlotLife.FRESH
        else:
            self._lose(slot)

    def revive(self, slot: int) -> None:
        """The slot was put into a state: nothing is wrong with its episode any more."""
        if self.life[slot] != SlotLife.OUT:
            self.life[slot], self.row[slot], self._renew[slot] = SlotLife.LIVE, RowKind.TRUE, False
        self.troubled = bool(self.life.any())

    def slot_broke(self, slot: int) -> None:
        """The slot's environment failed and its worker lives."""
        self.troubled = True
        fresh = self.row[slot] in (RowKind.FRESH, RowKind.WAITING)
        self.row[slot] = RowKind.WAITING if fresh else RowKind.FAULT
        self.life[slot], self._renew[slot] = SlotLife.FRESH, False

    def never_true(self, slot: int) -> None:
        """A quarantined slot's environment had failed before its worker died: its answer is not a true row."""
        if self.row[slot] in (RowKind.TRUE, RowKind.RENEWED):
            self.row[slot] = RowKind.FAULT

    def wait_longer(self, slots: Iterable[int]) -> None:
        """A synchronous batch goes on without these; what follows a waiting row is not a true transition."""
        for slot in slots:
            self.row[slot], self._renew[slot] = RowKind.WAITING, False

    def renew(self, slots: Iterable[int], valid: bool) -> None:
        """A new episode is wanted on purpose (a reset, a recycling); ``valid``: its first row counts as a true one."""
        self.troubled = True
        for slot in slots:
            if self.life[slot] != SlotLife.OUT:
                self.life[slot] = SlotLife.FRESH
                self._renew[slot] = valid

    def quarantine(self, slot: int, unanswered: bool) -> None:
        """The slot stays out. A fault row that is still owed comes; an ``unanswered`` request becomes a waiting row."""
        self.troubled = True
        self._owes_fault[slot] = self.life[slot] == SlotLife.LOST
        self.life[slot] = SlotLife.OUT
        if unanswered and self.row[slot] != RowKind.FAULT:
            self.row[slot] = RowKind.WAITING

    def handed_out(self, slots: npt.NDArray[np.int64], is_up: Iterable[bool]) -> list[int]:
        """These rows go to the learner: fresh ones are alive again, unless their worker died meanwhile.

        Returns the slots that are back after a fault.
        """
        back = []
        for slot, up in zip(slots.tolist(), is_up, strict=True):
            if self.life[slot] == SlotLife.FRESH and self.row[slot] in (RowKind.FRESH, RowKind.RENEWED):
                if up and self.row[slot] == RowKind.FRESH:
                    back.append(slot)
                self.life[slot] = SlotLife.LIVE if up else SlotLife.LOST
                self._renew[slot] = False
        self.row[slots] = RowKind.TRUE
        self.troubled = bool(self.life.any())
        return back

    def owe_fault(self, slot: int, fault: Fault) -> None:
        """The fault goes to the learner with the slot's fault row."""
        self._faults[slot] = fault

    def take_faults(self, slots: npt.NDArray[np.int64]) -> dict[int, Fault]:
        """The faults to hand out with those of these rows that are fault rows, each once."""
        return {slot: self._faults.pop(slot) for slot in self.faulty(slots).tolist() if slot in self._faults}

    def faulty(self, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Those of the slots whose row is the fault row itself."""
        faulty: npt.NDArray[np.int64] = slots[self.row[slots] == RowKind.FAULT]
        return faulty

    def forget_faults(self) -> None:
        """A reset begins everything anew."""
        self._faults.clear()

    def silent(self, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Rows without an info: no environment answered. A fresh row, though masked, has the info of its reset."""
        silent: npt.NDArray[np.bool_] = np.isin(self.row[slots], (RowKind.FAULT, RowKind.WAITING))
        return silent

    def masked(self, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Rows that carry no true transition."""
        masked: npt.NDArray[np.bool_] = ~np.isin(self.row[slots], (RowKind.TRUE, RowKind.RENEWED))
        return masked
