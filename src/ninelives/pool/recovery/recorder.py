"""Records each action before it is sent, with the digest of the row it answers. One call per batch.

``PyActionRecorder`` is the twin of the native ``Recorder`` (``_recorder.c``) and equal in behaviour; the same tests run
over both. Both read only what workers have published: a request is recorded while its group is idle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ninelives.native import native_module
from ninelives.spec.arrays import Leaf
from ninelives.spec.codec import ActionCodec
from ninelives.transport.control import Control

CHUNK = 4096 + 16
"""Actions per slot that are kept in place; older ones are packed away, which costs a few microseconds per chunk.

Not a power of two: otherwise the newest entries of many slots would compete for the same few cache lines.
"""

NOTHING, STEP, AUTORESET = 0, 1, 2
"""What the request under way asks of a slot, as far as the journal is concerned."""


@dataclass
class Records:
    """The newest records of all slots: one row per slot.

    Attributes:
        episode: which episode is recorded, as the worker counts them.
        count: steps of that episode recorded so far.
        base: the step of the first entry that is still in place.
        pending: what the request under way asks.
        blind: the episode holds an action that cannot be recorded.
        seen: digest of the newest row that was published before the request under way.
        actions: bytes of the actions in place.
        digests: digest of the row before each of them.
    """

    episode: npt.NDArray[np.int64]
    count: npt.NDArray[np.int64]
    base: npt.NDArray[np.int64]
    pending: npt.NDArray[np.uint8]
    blind: npt.NDArray[np.uint8]
    seen: npt.NDArray[np.uint32]
    actions: npt.NDArray[np.uint8]
    digests: npt.NDArray[np.uint32]

    @classmethod
    def blank(cls, slots: int, width: int) -> Records:
        """Nothing recorded yet."""
        return cls(
            episode=np.zeros(slots, np.int64),
            count=np.zeros(slots, np.int64),
            base=np.zeros(slots, np.int64),
            pending=np.zeros(slots, np.uint8),
            blind=np.zeros(slots, np.uint8),
            seen=np.zeros(slots, np.uint32),
            actions=np.zeros((slots, CHUNK, width), np.uint8),
            digests=np.zeros((slots, CHUNK), np.uint32),
        )


class ActionRecorder(Protocol):
    """Records requests about to be posted."""

    def note_all(self) -> None:
        """Every slot is about to be stepped."""
        ...

    def note(self, slots: npt.NDArray[np.int64]) -> None:
        """These slots are about to be stepped."""
        ...


class PyActionRecorder:
    """``ActionRecorder`` in pure Python."""

    def __init__(
        self,
        control: Control,
        records: Records,
        codec: ActionCodec,
        arrays: Mapping[str, npt.NDArray[Any]],
        next_step: bool,
        full: Callable[[int], None],
    ) -> None:
        self._control, self._records, self._codec, self._arrays = control, records, codec, arrays
        self._next_step, self._full = next_step, full
        self._all = np.arange(len(records.count))

    def note_all(self) -> None:
        """Every slot is about to be stepped."""
        self.note(self._all)

    def note(self, slots: npt.NDArray[np.int64]) -> None:
        """These slots are about to be stepped."""
        control, records = self._control, self._records
        begun = slots[records.episode[slots] != control.begun[slots]]
        if len(begun):
            records.episode[begun] = control.begun[begun]
            records.count[begun] = records.base[begun] = records.blind[begun] = 0
        records.seen[slots] = control.digest[slots]
        records.pending[slots] = STEP
        if self._next_step and control.ended[slots].any():
            ended = control.ended[slots] != 0
            records.pending[slots[ended]] = AUTORESET
            slots = slots[~ended]
        self._write(slots)

    def _write(self, slots: npt.NDArray[np.int64]) -> None:
        records, codec = self._records, self._codec
        place = records.count[slots] - records.base[slots]
        records.actions[slots, place] = codec.encode(self._arrays, slots)
        records.digests[slots, place] = records.seen[slots]
        records.blind[slots] |= ~codec.fits(self._arrays, slots)
        records.count[slots] += 1
        for slot in slots[place + 1 == CHUNK].tolist():
            self._full(slot)


def make_recorder(
    control: Control,
    records: Records,
    codec: ActionCodec,
    arrays: Mapping[str, npt.NDArray[Any]],
    next_step: bool,
    full: Callable[[int], None],
) -> ActionRecorder:
    """The native recorder where actions are rows of one array, else the Python one; ``full`` packs a chunk away."""
    native = native_module("ninelives.pool.recovery._recorder")
    if native is None or not isinstance(codec.node, Leaf):
        return PyActionRecorder(control, records, codec, arrays, next_step, full)
    rows = arrays[f"action:{codec.node.name}"]
    made: ActionRecorder = native.Recorder(
        control=control,
        records=records,
        rows=rows,
        narrow=codec.width if codec.narrow is not None else 0,
        item_bytes=rows.dtype.itemsize,
        low=codec.low,
        high=codec.high,
        next_step=next_step,
        full=full,
    )
    return made
