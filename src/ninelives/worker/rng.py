"""The state of an environment's generator, in and out of a fixed number of bytes.

Only for Gymnasium's own kind (``np_random`` over PCG64). Anything else is unknown, and an episode that began with an
unknown generator cannot be repeated.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ninelives.native import native_module
from ninelives.transport.control import RNG_BYTES, RNG_KNOWN

_FORM = struct.Struct("<16s16sII")
_KNOWN = 1


def record(env: Any, place: npt.NDArray[np.uint8]) -> None:
    """Record the generator's state, or that its kind is unknown. ``env`` is the innermost environment."""
    try:
        bits = env.np_random.bit_generator
    except AttributeError:
        bits = None
    if type(bits) is not np.random.PCG64:
        place[RNG_KNOWN] = 0
        return
    copy = fast_copy()
    if copy is not None:
        copy(bits.capsule, place)
    else:
        place[:RNG_KNOWN] = np.frombuffer(_state_bytes(bits), np.uint8)
    place[RNG_KNOWN] = _KNOWN


def state_of(env: Any) -> bytes | None:
    """The generator's state as a record; None where its kind is unknown."""
    place = np.zeros(RNG_BYTES, np.uint8)
    record(env, place)
    return place.tobytes() if place[RNG_KNOWN] else None


def restore(env: Any, record: bytes) -> None:
    """Give the environment a generator in this state."""
    number, step, has_uint32, uinteger = _FORM.unpack(record[:RNG_KNOWN])
    bits = np.random.PCG64()
    bits.state = {
        "bit_generator": "PCG64",
        "state": {"state": int.from_bytes(number, "little"), "inc": int.from_bytes(step, "little")},
        "has_uint32": has_uint32,
        "uinteger": uinteger,
    }
    env.unwrapped.np_random = np.random.Generator(bits)


def _state_bytes(bits: np.random.PCG64) -> bytes:
    """The state as numpy reports it."""
    state: Any = bits.state
    number, step = (state["state"][word].to_bytes(16, "little") for word in ("state", "inc"))
    return _FORM.pack(number, step, state["has_uint32"], state["uinteger"])


@cache
def fast_copy() -> Callable[[Any, Any], None] | None:
    """The native copy, ten times as fast, if it reads exactly what numpy reports of a generator that was used."""
    native = native_module("ninelives.worker._loop")
    if native is None:
        return None
    bits, place = np.random.PCG64(7), bytearray(RNG_KNOWN)
    generator = np.random.Generator(bits)
    for dtype in (np.uint32, np.float64, np.uint32, np.uint32):
        generator.integers(0, 9, dtype=np.int32) if dtype is np.uint32 else generator.random()
        native.pcg64_record(bits.capsule, place)
        if bytes(place) != _state_bytes(bits):
            return None
    copy: Callable[[Any, Any], None] = native.pcg64_record
    return copy
