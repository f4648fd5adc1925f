"""32 bits that stand for a row: its observation, reward and flags. Equal rows have equal digests.

The native loop makes the same digests as the native functions here; the pure-Python pair makes others, which is fine:
digests are only ever compared within one pool, whose workers are all of one kind.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any

from rookery.transport.native import native_module

OfBytes = Callable[[Any, int], int]
Seal = Callable[[int, float, int], int]


def digest_functions() -> tuple[OfBytes, Seal]:
    """``of_bytes(buffer, start)`` to go on from a digest, and ``seal(digest, reward, flags)``."""
    native = native_module("rookery.worker._native")
    if native is not None:
        return native.digest, native.seal
    return _of_bytes, _seal


def _of_bytes(buffer: Any, start: int) -> int:
    return zlib.crc32(buffer, start)


def _seal(digest: int, reward: float, flags: int) -> int:
    return zlib.crc32(struct.pack("<dB", reward, flags), digest)
