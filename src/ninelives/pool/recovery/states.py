"""States of slots to keep, to load, and to hand from one slot to others.

A state is a snapshot where the environment offers one, otherwise the recipe: how the episode began and every action
since. Either way it loads into any slot of any pool with the same environment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ninelives.errors import CheckpointError, UsageError
from ninelives.pool.data.calls import Calling
from ninelives.pool.data.checks import Slots
from ninelives.pool.data.gather import Gatherer
from ninelives.pool.recovery.healing import Healer
from ninelives.pool.recovery.journal import Journal
from ninelives.pool.recovery.slot_status import Desk
from ninelives.spec.arrays import leaves
from ninelives.spec.call import CallRequest
from ninelives.spec.data import DataSpec
from ninelives.spec.restore import Beginning, Outcome, Restore
from ninelives.transport.control import Control


@dataclass(frozen=True)
class SlotState:
    """Where a slot was. Can be pickled; load it with ``Pool.load_states``.

    Attributes:
        length: steps of the episode so far.
        total: return of the episode so far.
        recipe: how to get there.
        row: the newest observation, array by array.
        objects: parts of it that are no arrays.
        digest: stands for the newest row.
        spaces: stands for both spaces; a pool with others refuses the state.
    """

    length: int
    total: float
    recipe: Restore
    row: Mapping[str, npt.NDArray[Any]]
    objects: Mapping[str, Any]
    digest: int
    spaces: str

    @property
    def is_snapshot(self) -> bool:
        """Whether loading needs no replay."""
        return self.recipe.beginning is not None and self.recipe.beginning.state is not None


@dataclass
class StateDesk:
    """Makes states of idle slots, and puts states into them."""

    data: DataSpec
    arrays: Mapping[str, npt.NDArray[Any]]
    control: Control
    journal: Journal
    healer: Healer
    calling: Calling
    gather: Gatherer
    desk: Desk

    def save(self, slots: Slots) -> list[SlotState]:
        """The states of these slots: snapshots where environments offer them, else how to get there again."""
        snapshots = self.calling.make(slots, [CallRequest("save")] * len(slots))
        return [self._make(slot, snapshot) for slot, snapshot in zip(slots.tolist(), snapshots, strict=True)]

    def load(self, states: Sequence[SlotState], slots: Slots) -> None:
        """Put slots into states, one each, as new episodes; their rows are the states' then."""
        lost = self.put(states, slots, (self.control.begun[slots] + 1).tolist())
        if lost:
            why = "; ".join(dict.fromkeys(lost.values()))
            raise CheckpointError(f"slots {list(lost)} could not be put into the states: {why}")

    def put(self, states: Sequence[SlotState], slots: Slots, numbers: Sequence[int]) -> dict[int, str]:
        """Put slots into states, as episodes with these numbers. Returns the slots that did not arrive, and why."""
        self.calling.await_up(slots)  # a worker that is still coming up may have an older order to carry out
        for slot, state, number in zip(slots.tolist(), states, numbers, strict=True):
            self.control.begun[slot] = number
            self.journal.load(slot, state.recipe, state.length)
            self.healer.order(slot, state.recipe)
        raised = self.calling.stand(slots)
        lost = {}
        for slot, state in zip(slots.tolist(), states, strict=True):
            if self.control.outcome[slot] == Outcome.RESTORED:
                self._take_row(slot, state)
                self.desk.revive(slot)
            else:
                lost[slot] = raised.get(slot, "their replays gave other rows")
        return lost

    def _make(self, slot: int, snapshot: bytes | None) -> SlotState:
        control = self.control
        length, total = int(control.running_length[slot]), float(control.running_return[slot])
        if snapshot is not None:
            last = np.uint32(control.digest[slot]).tobytes()
            here = Beginning(state=snapshot, length=length, total=total, over=bool(control.ended[slot]))
            recipe = Restore(here, digests=last)
        else:
            why = self.journal.cannot(slot)
            if why:
                raise UsageError(f"the state of slot {slot} cannot be saved: it offers no snapshots, and {why}")
            found = self.journal.order(slot, is_open=False)
            if found is None:
                raise UsageError(f"the state of slot {slot} cannot be saved: the beginning of its episode is not kept")
            recipe = found
        names = [leaf.name for leaf in leaves(self.data.observation) if leaf.dtype is not None]
        row = {name: self.arrays[f"obs:{name}"][slot].copy() for name in names}
        objects, digest = self.gather.objects_of(slot), int(control.digest[slot])
        return SlotState(length, total, recipe, row, objects, digest, self.data.fingerprint)

    def check(self, states: Sequence[SlotState], slots: Slots) -> None:
        """Refuse what cannot be loaded, before anything is changed."""
        if len(states) != len(slots):
            raise UsageError(f"{len(states)} states for {len(slots)} slots; give one state per slot")
        for state in states:
            if not isinstance(state, SlotState):
                raise UsageError(f"{type(state).__name__} is not a state; load what save_states() returned")
            if state.spaces != self.data.fingerprint:
                raise CheckpointError("this state is of an environment with other spaces than this pool's")
            if self.journal.notes is None:
                raise UsageError("states can be loaded only with on_fault='heal' and actions that are arrays")

    def _take_row(self, slot: int, state: SlotState) -> None:
        control = self.control
        for name, value in state.row.items():
            self.arrays[f"obs:{name}"][slot] = value
        control.reward[slot], control.digest[slot], control.ended[slot] = 0.0, state.digest, 0
        control.terminated[slot] = control.truncated[slot] = False
        self.gather.keep_objects(slot, state.objects)
