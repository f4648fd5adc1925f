"""What a slot leaves behind so that another generation can take its place: digests, generator states, snapshots.

Writes the slot's words of the control segment and its snapshot letters, never its rows. Nothing here reads them back:
that is the parent's part.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import cloudpickle  # type: ignore[import-untyped, unused-ignore]
import numpy as np
import numpy.typing as npt

from ninelives.spec.arrays import checked_leaf, split
from ninelives.spec.data import DataSpec
from ninelives.spec.phase import Attention
from ninelives.transport.control import Control
from ninelives.transport.mailbox import STATE, Mailbox
from ninelives.worker import rng
from ninelives.worker.digest import digest_functions
from ninelives.worker.snapshot_schedule import Saver


class Trace:
    """The trace of one slot."""

    def __init__(
        self, index: int, control: Control, mail: Mailbox, data: DataSpec, rows: Mapping[str, npt.NDArray[Any]]
    ) -> None:
        self._index, self._control, self._mail = index, control, mail
        self._data, self._rows = data, rows
        self._of_bytes, self._seal = digest_functions()
        self._places = (control.rng[index, 0], control.rng[index, 1])

    def seal(self, objects: Mapping[str, Any], reward: float, flags: int) -> None:
        """Digest the row as it lies in the slab."""
        self._control.digest[self._index] = self._digest(self._rows.values(), objects, reward, flags)

    def digest_of(self, obs: Any, reward: float, flags: int, check: str) -> int:
        """The digest a row would have, without writing the row."""
        arrays, objects = [], {}
        for leaf, value in split(self._data.observation, obs):
            if leaf.dtype is None:
                objects[leaf.name] = value
            else:
                arrays.append(np.asarray(checked_leaf(leaf, value, check), dtype=leaf.dtype))
        return self._digest(arrays, objects, reward, flags)

    def _digest(self, arrays: Any, objects: Mapping[str, Any], reward: float, flags: int) -> int:
        number = 0
        for array in arrays:
            number = self._of_bytes(np.ascontiguousarray(array).reshape(-1).view(np.uint8), number)
        if objects:
            number = self._of_bytes(cloudpickle.dumps(dict(objects)), number)
        return self._seal(number, reward, flags)

    def record_rng(self, env: Any) -> None:
        """Remember with which generator the next episode begins; the present one's record stays beside it."""
        rng.record(env, self._places[(int(self._control.begun[self._index]) + 1) % 2])

    def save(self, saver: Saver) -> int:
        """Take a snapshot that is due and announce it; returns attention bits."""
        control, i = self._control, self._index
        began = time.thread_time_ns()  # no wall clock: on busy cores it counts what others did meanwhile
        state = saver.save()
        if state is not None:
            control.state_length[i], control.state_total[i] = control.running_length[i], control.running_return[i]
            control.state_bytes[i] = self._mail.put_bytes(i, STATE, state)
        saver.took(time.thread_time_ns() - began)
        control.saved_at[i] = control.running_length[i]
        control.save_every[i] = saver.next_interval(int(control.steps[i]), int(control.step_ns[i]))
        return Attention.NONE if state is None else Attention.STATE
