"""Spaces as plain values, so that a policy can be built from its checkpoint alone, and reading one runs no code.

Owns both directions, for the spaces that the trainer supports.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from ninelives.errors import CheckpointError


def plain(space: spaces.Space[Any]) -> dict[str, Any]:
    """A space as a tree that a checkpoint can hold.

    Raises:
        TypeError: the trainer does not support this kind of space.
    """
    match space:
        case spaces.Box():
            return {"kind": "Box", "low": space.low, "high": space.high, "dtype": space.dtype.str}
        case spaces.Discrete():
            return {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
        case spaces.MultiDiscrete():
            return {"kind": "MultiDiscrete", "nvec": space.nvec, "start": space.start}
        case spaces.MultiBinary():
            return {"kind": "MultiBinary", "n": space.n if isinstance(space.n, int) else list(space.shape)}
        case spaces.Dict():
            return {"kind": "Dict", "parts": [[key, plain(part)] for key, part in space.spaces.items()]}
        case spaces.Tuple():
            return {"kind": "Tuple", "parts": [plain(part) for part in space.spaces]}
    raise TypeError(f"a checkpoint cannot hold the space {space}")


def space_of(tree: dict[str, Any]) -> spaces.Space[Any]:
    """The space that ``plain`` described.

    Raises:
        CheckpointError: this version does not know the kind of space.
    """
    match tree:
        case {"kind": "Box", "low": low, "high": high, "dtype": dtype}:
            return spaces.Box(low, high, dtype=np.dtype(dtype).type)
        case {"kind": "Discrete", "n": n, "start": start}:
            return spaces.Discrete(n, start=start)
        case {"kind": "MultiDiscrete", "nvec": nvec, "start": start}:
            return spaces.MultiDiscrete(nvec, start=start)
        case {"kind": "MultiBinary", "n": n}:
            return spaces.MultiBinary(n)
        case {"kind": "Dict", "parts": parts}:
            return spaces.Dict([(key, space_of(part)) for key, part in parts])
        case {"kind": "Tuple", "parts": parts}:
            return spaces.Tuple([space_of(part) for part in parts])
    raise CheckpointError(
        f"the checkpoint describes a kind of space that this version does not know: {tree.get('kind')!r}"
    )
