"""Writes down each action before it is sent, with the digest of the row it answers. One write per batch.

``PyNotes`` is the twin of the native ``Notes`` (``pool/_native.c``) and equal in behaviour; the same tests run over
both. Both only read what workers have published: a request is noted before it is posted, while its group is idle.
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
"""Actions per slot that lie in place; older ones are packed away, which costs a few microseconds per chunk.

No power of two: the newest entries of many slots would else compete for the same few lines of the cache.
"""

NOTHING, STEP, AUTORESET = 0, 1, 2
"""What the request under way asks of a slot, as far as the journal is concerned."""


@dataclass
class Sheets:
    """The arrays that are written: one row per slot.

    Attributes:
        episode: which episode is noted, as the worker counts them.
        count: steps of that episode noted so far.
        base: the step of the first entry that still lies in place.
        pending: what the request under way asks.
        blind: the episode holds an action that cannot be written down.
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
    def blank(cls, slots: int, width: int) -> Sheets:
        """Nothing noted yet."""
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


class Notes(Protocol):
    """Takes notes of requests about to be posted."""

    def note_all(self) -> None:
        """Every slot is about to be stepped."""
        ...

    def note(self, slots: npt.NDArray[np.int64]) -> None:
        """These slots are about to be stepped."""
        ...

    def hold_all(self) -> None:
        """Every slot is about to be stepped: copy what workers will write over, and note it while they work."""
        ...

    def note_held(self) -> None:
        """Note what was held."""
        ...

    def hook(self) -> Any:
        """``hold_all`` and ``note_held`` as the native exchange calls them; None where only Python can."""
        ...

    def complete(self) -> None:
        """Write into the sheets whatever is not there yet: nobody reads them before."""
        ...


class PyNotes:
    """Notes in pure Python."""

    def __init__(
        self,
        control: Control,
        sheets: Sheets,
        codec: ActionCodec,
        arrays: Mapping[str, npt.NDArray[Any]],
        next_step: bool,
        full: Callable[[int], None],
    ) -> None:
        self._control, self._sheets, self._codec, self._arrays = control, sheets, codec, arrays
        self._next_step, self._full = next_step, full
        self._all = np.arange(len(sheets.count))

    def note_all(self) -> None:
        """Every slot is about to be stepped."""
        self.note(self._all)

    def note(self, slots: npt.NDArray[np.int64]) -> None:
        """These slots are about to be stepped."""
        control, sheets = self._control, self._sheets
        begun = slots[sheets.episode[slots] != control.begun[slots]]
        if len(begun):
            sheets.episode[begun] = control.begun[begun]
            sheets.count[begun] = sheets.base[begun] = sheets.blind[begun] = 0
        sheets.seen[slots] = control.digest[slots]
        sheets.pending[slots] = STEP
        if self._next_step and control.ended[slots].any():
            ended = control.ended[slots] != 0
            sheets.pending[slots[ended]] = AUTORESET
            slots = slots[~ended]
        self._write(slots)

    def hold_all(self) -> None:
        """Note at once: the pure-Python path has no exchange that could do it later."""
        self.note_all()

    def note_held(self) -> None:
        """Nothing is left to note."""

    def hook(self) -> None:
        """Nothing native."""

    def complete(self) -> None:
        """Nothing is left to write."""

    def _write(self, slots: npt.NDArray[np.int64]) -> None:
        sheets, codec = self._sheets, self._codec
        place = sheets.count[slots] - sheets.base[slots]
        sheets.actions[slots, place] = codec.encode(self._arrays, slots)
        sheets.digests[slots, place] = sheets.seen[slots]
        sheets.blind[slots] |= ~codec.fits(self._arrays, slots)
        sheets.count[slots] += 1
        for slot in slots[place + 1 == CHUNK].tolist():
            self._full(slot)


def make_notes(
    control: Control,
    sheets: Sheets,
    codec: ActionCodec,
    arrays: Mapping[str, npt.NDArray[Any]],
    next_step: bool,
    full: Callable[[int], None],
) -> Notes:
    """The native notes where actions are rows of one array, else the Python ones; ``full`` packs a chunk away."""
    native = native_module("ninelives.pool._native")
    if native is None or not isinstance(codec.node, Leaf):
        return PyNotes(control, sheets, codec, arrays, next_step, full)
    rows = arrays[f"action:{codec.node.name}"]
    made: Notes = native.Notes(
        control=control,
        sheets=sheets,
        rows=rows,
        narrow=codec.width if codec.narrow is not None else 0,
        item_bytes=rows.dtype.itemsize,
        signed_low=codec.low,
        high=codec.high,
        next_step=next_step,
        full=full,
    )
    return made
