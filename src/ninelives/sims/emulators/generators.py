"""The state of an environment's random generator as plain values, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

_KINDS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")


def generator_state(generator: np.random.Generator) -> dict[str, Any]:
    """The generator's complete state."""
    state: Any = generator.bit_generator.state
    return dict(state)


def generator_of(state: Mapping[str, Any]) -> np.random.Generator:
    """A generator in that state.

    Raises:
        ValueError: it is not the state of a numpy generator.
    """
    kind = state.get("bit_generator")
    if kind not in _KINDS:
        raise ValueError(f"unknown generator {kind!r}; allowed: {', '.join(_KINDS)}")
    bits = getattr(np.random, kind)()
    bits.state = dict(state)
    return np.random.Generator(bits)
