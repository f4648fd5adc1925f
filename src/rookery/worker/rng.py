"""The state of an environment's generator, in and out of a fixed number of bytes.

Only for Gymnasium's own kind (``np_random`` over PCG64). Anything else is unknown, and an episode that began with an
unknown generator cannot be begun again.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

KNOWN = 1
_FORM = struct.Struct("<16s16sIIB")
NBYTES = _FORM.size


def record(env: Any) -> bytes:
    """The generator's state; zeros if it is of another kind."""
    try:
        generator = env.unwrapped.np_random
    except AttributeError:
        return bytes(NBYTES)
    state = getattr(getattr(generator, "bit_generator", None), "state", None)
    if not isinstance(state, dict) or state.get("bit_generator") != "PCG64":
        return bytes(NBYTES)
    words = state["state"]
    number, step = words["state"].to_bytes(16, "little"), words["inc"].to_bytes(16, "little")
    return _FORM.pack(number, step, state["has_uint32"], state["uinteger"], KNOWN)


def is_known(record: bytes) -> bool:
    """Whether the record holds a state."""
    return record[NBYTES - 1] == KNOWN


def restore(env: Any, record: bytes) -> None:
    """Give the environment a generator in this state."""
    number, step, has_uint32, uinteger, _ = _FORM.unpack(record[:NBYTES])
    bits = np.random.PCG64()
    bits.state = {
        "bit_generator": "PCG64",
        "state": {"state": int.from_bytes(number, "little"), "inc": int.from_bytes(step, "little")},
        "has_uint32": has_uint32,
        "uinteger": uinteger,
    }
    env.unwrapped.np_random = np.random.Generator(bits)
