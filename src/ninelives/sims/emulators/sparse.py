"""Stores bytes that are mostly zeros without their all-zero blocks; cheap enough to be done within a step.

::

    number of bytes | one bit per block: is any byte not zero? | the blocks that are not zero, end to end

Knows nothing about the meaning of the bytes. The input may be untrusted: inconsistent data is rejected.
"""

from __future__ import annotations

import struct

import numpy as np

from ninelives.native import native_module

BLOCK = 1024
"""Small enough to find the gaps in a console's memory, large enough to search quickly."""

MOST_PARTS = 64
"""Most parts that the native function takes."""

_SIZE = struct.Struct("<Q")
_WORD = np.dtype("<u8")


def squeeze(*parts: bytes) -> bytes:
    """Join all parts and remove their empty blocks."""
    native = native_module("ninelives.sims.emulators._sparse") if len(parts) <= MOST_PARTS else None
    squeezed: bytes = squeeze_in_python(*parts) if native is None else native.squeeze(*parts)
    return squeezed


def squeeze_in_python(*parts: bytes) -> bytes:
    """The twin that needs no compiler."""
    size = sum(map(len, parts))
    words = np.frombuffer(b"".join((*parts, bytes(-size % BLOCK))), _WORD).reshape(-1, BLOCK // _WORD.itemsize)
    full = np.bitwise_or.reduce(words, axis=1) != 0
    return b"".join((_SIZE.pack(size), np.packbits(full).data, words[full].data))


def expand(data: bytes | memoryview, most: int) -> bytes:
    """The bytes that were squeezed; at most ``most`` of them.

    Raises:
        ValueError: the data was not written by ``squeeze``.
    """
    if len(data) < _SIZE.size:
        raise ValueError("the size is missing")
    (size,) = _SIZE.unpack_from(data)
    if size > most:
        raise ValueError(f"{size:,} bytes are more than {most:,}")
    blocks = -(-size // BLOCK)
    begin = _SIZE.size + -(-blocks // 8)
    if len(data) < begin:
        raise ValueError("the bits of the blocks are missing")
    full = np.unpackbits(np.frombuffer(data[_SIZE.size : begin], np.uint8), count=blocks).astype(np.bool_)
    kept = np.frombuffer(data[begin:], np.uint8)
    if len(kept) != np.count_nonzero(full) * BLOCK:
        raise ValueError(f"{len(kept):,} bytes of blocks instead of {np.count_nonzero(full) * BLOCK:,}")
    whole = np.zeros((blocks, BLOCK), np.uint8)
    whole[full] = kept.reshape(-1, BLOCK)
    return whole.tobytes()[:size]
