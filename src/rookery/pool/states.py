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

from rookery.errors import CheckpointError, UsageError
from rookery.pool.healer import Healer
from rookery.pool.journal import Journal
from rookery.spec.arrays import leaves
from rookery.spec.data import DataSpec
from rookery.spec.restore import Beginning, Outcome, Restore
from rookery.transport.control import Control


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

    def make(self, slot: int, snapshot: bytes | None, objects: Mapping[str, Any]) -> SlotState:
        """The state of one slot; ``snapshot`` is what its environment gave, if it can."""
        control = self.control
        length, total = int(control.running_length[slot]), float(control.running_return[slot])
        if snapshot is not None:
            last = np.uint32(control.digest[slot]).tobytes()
            recipe = Restore(Beginning(state=snapshot, length=length, total=total), digests=last)
        else:
            why = self.journal.cannot(slot)
            if why:
                raise UsageError(f"the state of slot {slot} cannot be saved: it offers no snapshots, and {why}")
            found = self.journal.order(slot, is_open=False)
            if found is None:
                raise UsageError(f"the state of slot {slot} cannot be saved: the beginning of its episode is not kept")
            recipe = found
        row = {name: self.arrays[f"obs:{name}"][slot].copy() for name in self._names()}
        return SlotState(length, total, recipe, row, objects, int(control.digest[slot]), self.data.fingerprint)

    def check(self, states: Sequence[SlotState], slots: Sequence[int]) -> None:
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

    def order(self, slot: int, state: SlotState) -> None:
        """Write the order to go there; the slot carries it out with its next request."""
        self.control.begun[slot] += 1
        self.journal.load(slot, state.recipe, state.length)
        self.healer.order(slot, state.recipe)

    def arrived(self, slot: int, state: SlotState) -> bool:
        """Whether the slot is there; its row is the state's then."""
        control = self.control
        if control.outcome[slot] != Outcome.RESTORED:
            return False
        for name, value in state.row.items():
            self.arrays[f"obs:{name}"][slot] = value
        control.reward[slot], control.digest[slot], control.ended[slot] = 0.0, state.digest, 0
        control.terminated[slot] = control.truncated[slot] = False
        control.mail_bytes[slot] = 0
        return True

    def _names(self) -> list[str]:
        return [leaf.name for leaf in leaves(self.data.observation) if leaf.dtype is not None]
