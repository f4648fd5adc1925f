"""The desk: what each slot's next row will be when something is wrong with it.

A slot is LIVE until its episode dies. Then, in this order, the learner sees: one *fault row* (truncated, masked), any
number of *waiting rows* (masked, only while a synchronous batch cannot wait longer), and one *fresh row* (masked, the
first observation of a new episode). Every row from the fault to the fresh one has ``valid=False``; so a valid row is
always a true transition from the row before it.

Pure bookkeeping over two small arrays; the pool does the sending.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ninelives.spec.phase import Op


class Life(IntEnum):
    """Where a slot stands."""

    LIVE = 0
    LOST = 1  # the episode died; the fault row is still owed
    FRESH = 2  # the fault row was handed out; a new episode is owed
    OUT = 3  # quarantined


class Verdict(IntEnum):
    """What the row now being produced is."""

    TRUE = 0  # the worker's own
    FAULT = 1  # the episode ended here
    WAITING = 2  # nothing happened
    FRESH = 3  # first observation after a fault: masked
    RENEWED = 4  # first observation after an asked reset or a recycling: valid


class Desk:
    """State and verdict per slot."""

    def __init__(self, slots: int) -> None:
        self.life: npt.NDArray[np.uint8] = np.zeros(slots, np.uint8)
        self.verdict: npt.NDArray[np.uint8] = np.zeros(slots, np.uint8)
        self._renew: npt.NDArray[np.bool_] = np.zeros(slots, np.bool_)
        self._owes_fault: npt.NDArray[np.bool_] = np.zeros(slots, np.bool_)
        self.troubled = False

    def ask(self, slots: Sequence[int]) -> list[Op]:
        """What to ask of a group's slots now; sets their verdicts. All ``NONE``: the parent answers by itself."""
        owes_fault = any(self.life[s] == Life.LOST for s in slots)
        return [self._ask_one(s, owes_fault) for s in slots]

    def _ask_one(self, slot: int, owes_fault: bool) -> Op:
        life = Life(int(self.life[slot]))
        if life is Life.LIVE:
            return self._answer(slot, Verdict.TRUE, Op.STEP)
        if life is Life.LOST:
            self.life[slot] = Life.FRESH
            return self._answer(slot, Verdict.FAULT, Op.NONE)
        if life is Life.FRESH and not owes_fault:
            return self._answer(slot, Verdict.RENEWED if self._renew[slot] else Verdict.FRESH, Op.RESET)
        if life is Life.OUT and self._owes_fault[slot]:
            self._owes_fault[slot] = False
            return self._answer(slot, Verdict.FAULT, Op.NONE)
        return self._answer(slot, Verdict.WAITING, Op.NONE)

    def _answer(self, slot: int, verdict: Verdict, op: Op) -> Op:
        self.verdict[slot] = verdict
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
                    self.verdict[slot], self._renew[slot] = Verdict.WAITING, False
            elif self.life[slot] != Life.OUT:
                self.verdict[slot], self.life[slot] = Verdict.FAULT, Life.FRESH
        return cut

    def _lose(self, slot: int) -> None:
        """The slot's episode is lost: a running one, or a fresh one that is answered and not yet handed out."""
        answered = self.life[slot] == Life.FRESH and self.verdict[slot] in (Verdict.FRESH, Verdict.RENEWED)
        if self.life[slot] == Life.LIVE or answered:
            self.life[slot], self._renew[slot] = Life.LOST, False

    def cut(self, slot: int, asked: bool) -> None:
        """The slot's episode could not be brought back; ``asked``: the row now being produced is its fault row."""
        self.troubled = True
        if asked and self.life[slot] != Life.OUT:
            self.verdict[slot], self.life[slot] = Verdict.FAULT, Life.FRESH
        else:
            self._lose(slot)

    def revive(self, slot: int) -> None:
        """The slot was put into a state: whatever was wrong with its episode is over."""
        if self.life[slot] != Life.OUT:
            self.life[slot], self.verdict[slot], self._renew[slot] = Life.LIVE, Verdict.TRUE, False
        self.troubled = bool(self.life.any())

    def slot_broke(self, slot: int) -> None:
        """The slot's environment failed and its worker lives."""
        self.troubled = True
        fresh = self.verdict[slot] in (Verdict.FRESH, Verdict.WAITING)
        self.verdict[slot] = Verdict.WAITING if fresh else Verdict.FAULT
        self.life[slot], self._renew[slot] = Life.FRESH, False

    def never_true(self, slot: int) -> None:
        """A quarantined slot's environment had failed before its worker died: its answer is no true row."""
        if self.verdict[slot] in (Verdict.TRUE, Verdict.RENEWED):
            self.verdict[slot] = Verdict.FAULT

    def wait_longer(self, slots: Iterable[int]) -> None:
        """A synchronous batch goes on without these; what follows a waiting row is no true transition."""
        for slot in slots:
            self.verdict[slot], self._renew[slot] = Verdict.WAITING, False

    def renew(self, slots: Iterable[int], valid: bool) -> None:
        """A new episode is wanted on purpose (a reset, a recycling); ``valid``: its first row counts as a true one."""
        self.troubled = True
        for slot in slots:
            if self.life[slot] != Life.OUT:
                self.life[slot] = Life.FRESH
                self._renew[slot] = valid

    def quarantine(self, slot: int, unanswered: bool) -> None:
        """The slot stays out. A fault row that is still owed comes; an ``unanswered`` request becomes a waiting row."""
        self.troubled = True
        self._owes_fault[slot] = self.life[slot] == Life.LOST
        self.life[slot] = Life.OUT
        if unanswered and self.verdict[slot] != Verdict.FAULT:
            self.verdict[slot] = Verdict.WAITING

    def handed_out(self, slots: npt.NDArray[np.int64], is_up: Iterable[bool]) -> list[int]:
        """These rows go to the learner: fresh ones are alive again, unless their worker died meanwhile.

        Returns the slots that are back after a fault.
        """
        back = []
        for slot, up in zip(slots.tolist(), is_up, strict=True):
            if self.life[slot] == Life.FRESH and self.verdict[slot] in (Verdict.FRESH, Verdict.RENEWED):
                if up and self.verdict[slot] == Verdict.FRESH:
                    back.append(slot)
                self.life[slot] = Life.LIVE if up else Life.LOST
                self._renew[slot] = False
        self.verdict[slots] = Verdict.TRUE
        self.troubled = bool(self.life.any())
        return back

    def faulty(self, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Those of the slots whose row is the fault row itself."""
        guilty: npt.NDArray[np.int64] = slots[self.verdict[slots] == Verdict.FAULT]
        return guilty

    def silent(self, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Rows for which no environment has spoken; a fresh row, though masked, has its reset's info."""
        silent: npt.NDArray[np.bool_] = np.isin(self.verdict[slots], (Verdict.FAULT, Verdict.WAITING))
        return silent

    def masked(self, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Rows that carry no true transition."""
        masked: npt.NDArray[np.bool_] = ~np.isin(self.verdict[slots], (Verdict.TRUE, Verdict.RENEWED))
        return masked
