"""32 bits that stand for a row: its observation, reward and flags. Equal rows have equal digests.

A digest is of every byte, or of a few words all over the row (only the native loop makes those, of big rows whose steps
are very short); the lowest bit says which. The native loop makes the same digests as the native functions here. The
pure-Python pair makes others, which is fine: digests are only compared within one pool, whose workers are of one kind.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any

from ninelives.native import native_module

FULL_BIT = 1

OfBytes = Callable[[Any, int, bool], int]
Seal = Callable[[int, float, int, bool], int]


def digest_functions() -> tuple[OfBytes, Seal]:
    """``of_bytes(buffer, start, full)`` to go on from a number, and ``seal(number, reward, flags, full)``."""
    native = native_module("ninelives.worker._native")
    if native is not None:
        return native.digest, native.seal
    return _of_bytes, _seal


def is_full(digest: int) -> bool:
    """Whether the digest is of every byte."""
    return bool(digest & FULL_BIT)


def _of_bytes(buffer: Any, start: int, full: bool) -> int:
    return zlib.crc32(buffer, start)


def _seal(number: int, reward: float, flags: int, full: bool) -> int:
    return zlib.crc32(struct.pack("<dB", reward, flags), number) & ~FULL_BIT | full
