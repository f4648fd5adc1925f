"""32 bits that stand for a row: every byte of its observation, its reward and its flags. Equal rows have equal digests.

The native loop makes the same digests as the native functions here. The pure-Python pair makes others, which is fine:
digests are only compared within one pool, whose workers are of one kind.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any

from ninelives.native import native_module

OfBytes = Callable[[Any, int], int]
Seal = Callable[[int, float, int], int]


def digest_functions() -> tuple[OfBytes, Seal]:
    """``of_bytes(buffer, start)``, which continues from a number, and ``seal(number, reward, flags)``."""
    native = native_module("ninelives.worker._digest")
    if native is not None:
        return native.digest_bytes, native.digest_row
    return zlib.crc32, _seal


def _seal(number: int, reward: float, flags: int) -> int:
    return zlib.crc32(struct.pack("<dB", reward, flags), number)
