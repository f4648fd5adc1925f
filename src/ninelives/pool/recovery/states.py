"""States of slots: to keep, to load, and to copy from one slot to others.

A state is a snapshot where the environment offers one, otherwise the recipe: how the episode began and every action
since. Either way it loads into any slot of any pool with the same environment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ninelives.errors import CheckpointError, UsageError
from ninelives.pool.recovery.coordinator import Coordinator
from ninelives.pool.recovery.journal import Journal
from ninelives.pool.runtime import Runtime
from ninelives.spec.arrays import leaves
from ninelives.spec.call import CallRequest
from ninelives.spec.plan import Slots
from ninelives.spec.restore import Beginning, Outcome, Restore


@dataclass(frozen=True)
class SlotState:
    """Where a slot was. Can be pickled; load it with ``Pool.load_states``.

    Attributes:
        length: steps of the episode so far.
        total: return of the episode so far.
        recipe: how to get there.
        row: the newest observation, array by array.
        objects: parts of it that are not arrays.
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


class EnvCalls(Protocol):
    """Calls into the environments of idle slots; the pool's requests."""

    def call(self, slots: Slots, requests: Sequence[CallRequest]) -> tuple[Any, ...]:
        """Call and wait; results in the order of the slots."""
        ...

    def carry_out_orders(self, slots: Slots) -> dict[int, str]:
        """Have slots carry out their restore orders. Returns why some of them failed."""
        ...

    def await_up(self, slots: Slots) -> None:
        """Wait for the workers of these slots."""
        ...


class RowObjects(Protocol):
    """The parts of observations that are not arrays; the pool's gatherer."""

    def objects_of(self, slot: int) -> Mapping[str, Any]:
        """Those of a slot's newest observation."""
        ...

    def keep_objects(self, slot: int, objects: Mapping[str, Any]) -> None:
        """A slot was put into a state with these objects."""
        ...


class States:
    """Makes states of idle slots, and puts states into them."""

    def __init__(
        self, runtime: Runtime, coordinator: Coordinator, requests: EnvCalls, gatherer: RowObjects, journal: Journal
    ) -> None:
        self._data, self._arrays, self._control = runtime.data, runtime.arrays, runtime.control
        self._status, self._healing = coordinator.status, coordinator.healing
        self._requests, self._gatherer, self._journal = requests, gatherer, journal

    def save(self, slots: Slots) -> list[SlotState]:
        """The states of these slots: snapshots where environments offer them, else how to get there again."""
        states, refused = self.save_some(slots)
        for slot, why in refused.items():
            raise UsageError(f"the state of slot {slot} cannot be saved: {why}")
        return [states[slot] for slot in slots.tolist()]

    def save_some(self, slots: Slots) -> tuple[dict[int, SlotState], dict[int, str]]:
        """The states of those slots that can be saved, and why the others cannot."""
        snapshots = self._requests.call(slots, [CallRequest("save")] * len(slots))
        states, refused = {}, {}
        for slot, snapshot in zip(slots.tolist(), snapshots, strict=True):
            recipe = self._recipe(slot, snapshot)
            if isinstance(recipe, str):
                refused[slot] = recipe
            else:
                states[slot] = self._make(slot, recipe)
        return states, refused

    def load(self, states: Sequence[SlotState], slots: Slots) -> None:
        """Put slots into states, one each, as new episodes; their rows become those of the states."""
        lost = self.put(states, slots, (self._control.begun[slots] + 1).tolist())
        if lost:
            why = "; ".join(dict.fromkeys(lost.values()))
            raise CheckpointError(f"slots {list(lost)} could not be put into the states: {why}")

    def put(self, states: Sequence[SlotState], slots: Slots, numbers: Sequence[int]) -> dict[int, str]:
        """Put slots into states, as episodes with these numbers. Returns the slots that did not arrive, and why."""
        self._requests.await_up(slots)  # a worker that is still coming up may have an older order to carry out
        for slot, state, number in zip(slots.tolist(), states, numbers, strict=True):
            self._control.begun[slot] = number
            self._journal.load(slot, state.recipe, state.length)
            self._healing.order(slot, state.recipe)
        raised = self._requests.carry_out_orders(slots)
        lost = {}
        for slot, state in zip(slots.tolist(), states, strict=True):
            if self._control.outcome[slot] == Outcome.RESTORED:
                self._take_row(slot, state)
                self._status.revive(slot)
            else:
                lost[slot] = raised.get(slot, "their replays gave other rows")
        return lost

    def _recipe(self, slot: int, snapshot: bytes | None) -> Restore | str:
        """How to get to where the slot is; or why that is not known."""
        control = self._control
        if snapshot is not None:
            length, total = int(control.running_length[slot]), float(control.running_return[slot])
            here = Beginning(state=snapshot, length=length, total=total, over=bool(control.ended[slot]))
            return Restore(here, digests=np.uint32(control.digest[slot]).tobytes())
        why = self._journal.cannot(slot)
        if why:
            return f"it offers no snapshots, and {why}"
        return self._journal.order(slot, is_open=False) or "the beginning of its episode is not kept"

    def _make(self, slot: int, recipe: Restore) -> SlotState:
        control = self._control
        length, total = int(control.running_length[slot]), float(control.running_return[slot])
        names = [leaf.name for leaf in leaves(self._data.observation) if leaf.dtype is not None]
        row = {name: self._arrays[f"obs:{name}"][slot].copy() for name in names}
        objects, digest = self._gatherer.objects_of(slot), int(control.digest[slot])
        return SlotState(length, total, recipe, row, objects, digest, self._data.fingerprint)

    def check(self, states: Sequence[SlotState], slots: Slots) -> None:
        """Refuse what cannot be loaded, before anything is changed."""
        if len(states) != len(slots):
            raise UsageError(f"{len(states)} states for {len(slots)} slots; give one state per slot")
        for state in states:
            if not isinstance(state, SlotState):
                raise UsageError(f"{type(state).__name__} is not a state; load what save_states() returned")
            if state.spaces != self._data.fingerprint:
                raise CheckpointError("this state is of an environment with other spaces than this pool's")
            if self._journal.recorder is None:
                raise UsageError("states can be loaded only with on_fault='heal' and actions that are arrays")

    def _take_row(self, slot: int, state: SlotState) -> None:
        control = self._control
        for name, value in state.row.items():
            self._arrays[f"obs:{name}"][slot] = value
        control.reward[slot], control.digest[slot], control.ended[slot] = 0.0, state.digest, 0
        control.terminated[slot] = control.truncated[slot] = False
        self._gatherer.keep_objects(slot, state.objects)
