"""What a slot's rows and generators looked like, so that a replay can be compared with them.

A digest is 32 bits that stand for a row: every byte of its observation, its reward and its flags. Equal rows have equal
digests. Writes the slot's digest and generator records in the control segment, never its rows; the parent reads them.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import cloudpickle  # type: ignore[import-untyped, unused-ignore]
import numpy as np
import numpy.typing as npt

from ninelives.native import native_module
from ninelives.spec.arrays import checked_leaf, split, value_bytes
from ninelives.spec.data import DataSpec
from ninelives.spec.text import NO_TEXT, text_row
from ninelives.transport.control import Control
from ninelives.worker import rng

TERMINATED_BIT, TRUNCATED_BIT = 1, 2

DigestBytes = Callable[[Any, int], int]
DigestRow = Callable[[int, float, int], int]


def flags_of(terminated: Any, truncated: Any) -> int:
    """Both flags as one number, as it enters a digest."""
    return (TERMINATED_BIT if terminated else 0) | (TRUNCATED_BIT if truncated else 0)


class Fingerprint:
    """Digests and generator records of one slot."""

    def __init__(self, index: int, control: Control, data: DataSpec) -> None:
        self._index, self._control, self._data = index, control, data
        self._digest_bytes, self._digest_row = _digest_functions()
        self._records = (control.rng[index, 0], control.rng[index, 1])

    def put_digest(
        self, rows: Iterable[npt.NDArray[Any]], objects: Mapping[str, Any], reward: float, flags: int
    ) -> None:
        """Publish the digest of the row that is now in the slab: its arrays, then its texts."""
        self._control.digest[self._index] = self._digest(rows, objects, reward, flags)

    def digest_of(self, obs: Any, reward: float, flags: int, check: str) -> int:
        """The digest that a row would have; the row is not written."""
        arrays: list[npt.NDArray[Any]] = []
        texts: list[npt.NDArray[Any]] = []
        objects: dict[str, Any] = {}
        for leaf, value in split(self._data.observation, obs):
            raw = text_row(value) if leaf.is_text else None
            if leaf.is_text:
                texts.append(np.frombuffer(NO_TEXT if raw is None else raw, np.uint8))
            if leaf.dtype is None and raw is None:
                objects[leaf.name] = value
            elif leaf.dtype is None:
                continue
            else:
                arrays.append(np.asarray(checked_leaf(leaf, value, check), dtype=leaf.dtype))
        return self._digest((*arrays, *texts), objects, reward, flags)

    def record_rng(self, env: Any) -> None:
        """Record the generator with which the next episode begins; the present episode's record is kept beside it."""
        rng.record(env, self._records[(int(self._control.begun[self._index]) + 1) % 2])

    def _digest(self, arrays: Iterable[npt.NDArray[Any]], objects: Mapping[str, Any], reward: float, flags: int) -> int:
        number = 0
        for array in arrays:
            number = self._digest_bytes(value_bytes(array), number)
        if objects:
            number = self._digest_bytes(cloudpickle.dumps(dict(objects)), number)
        return self._digest_row(number, reward, flags)


def _digest_functions() -> tuple[DigestBytes, DigestRow]:
    """``digest_bytes(buffer, start)``, which continues a number, and ``digest_row(number, reward, flags)``.

    The native functions return the same numbers as the native loop. The pure-Python ones return others: digests are
    only compared within one pool, and all its workers use the same functions.
    """
    native = native_module("ninelives.worker._digest")
    return (native.digest_bytes, native.digest_row) if native is not None else (zlib.crc32, _crc_of_row)


def _crc_of_row(number: int, reward: float, flags: int) -> int:
    return zlib.crc32(struct.pack("<dB", reward, flags), number)
