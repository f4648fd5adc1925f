"""Bytes that are mostly zeros, without most of their zeros; so cheap that it pays within a step.

::

    how many bytes | a bit for each block of them: is anything in it? | the blocks in which there is, end to end

Knows nothing of what the bytes mean. They may come from a stranger: what does not fit together is refused.
"""

from __future__ import annotations

import struct

import numpy as np

from ninelives.native import native_module

BLOCK = 1024
"""Small enough to find the gaps in a console's memory, large enough that looking for them is quick."""

MOST_PARTS = 64
"""That are squeezed natively."""

_SIZE = struct.Struct("<Q")
_WORD = np.dtype("<u8")


def squeeze(*parts: bytes) -> bytes:
    """All parts, one after the other, without their empty blocks."""
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
    """What was squeezed, ``most`` bytes of it at most.

    Raises:
        ValueError: no ``squeeze`` has written this.
    """
    if len(data) < _SIZE.size:
        raise ValueError("there is no size")
    (size,) = _SIZE.unpack_from(data)
    if size > most:
        raise ValueError(f"{size:,} bytes are more than {most:,}")
    blocks = -(-size // BLOCK)
    begin = _SIZE.size + -(-blocks // 8)
    if len(data) < begin:
        raise ValueError("it is not said which blocks are there")
    full = np.unpackbits(np.frombuffer(data[_SIZE.size : begin], np.uint8), count=blocks).astype(np.bool_)
    kept = np.frombuffer(data[begin:], np.uint8)
    if len(kept) != np.count_nonzero(full) * BLOCK:
        raise ValueError(f"{len(kept):,} bytes of blocks, {np.count_nonzero(full) * BLOCK:,} are said to be there")
    whole = np.zeros((blocks, BLOCK), np.uint8)
    whole[full] = kept.reshape(-1, BLOCK)
    return whole.tobytes()[:size]
