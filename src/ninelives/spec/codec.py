"""Actions as few bytes as they need, for the journal: one fixed-width row of bytes per action.

A Discrete with up to 256 choices is one byte; everything else is the bytes of its arrays. Spaces whose actions are
objects (Text, Graph, Sequence) have no codec.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ninelives.spec.arrays import Leaf, Node, assemble, leaves

NARROW = ("u1", "u2", "u4")


@dataclass(frozen=True)
class ActionCodec:
    """How one action becomes ``width`` bytes and an action again.

    ``narrow`` is the dtype of a lone Discrete's row, counted from ``low`` to ``high``; None: plain bytes.
    """

    node: Node
    width: int
    narrow: str | None = None
    low: int = 0
    high: int = 0

    @classmethod
    def of(cls, node: Node) -> ActionCodec | None:
        """The codec of an action tree; None if its actions are objects."""
        if any(leaf.dtype is None for leaf in leaves(node)):
            return None
        if isinstance(node, Leaf) and node.is_scalar_int and node.low is not None and node.high is not None:
            low, high = int(node.low), int(node.high)
            for narrow in NARROW:
                if high - low <= np.iinfo(narrow).max:
                    return cls(node, np.dtype(narrow).itemsize, narrow, low, high)
        return cls(node, sum(_row_bytes(leaf) for leaf in leaves(node)))

    def encode(self, arrays: Mapping[str, npt.NDArray[Any]], slots: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
        """The actions of these slots, from the slab: one row of bytes each."""
        if self.narrow is not None:
            numbers = arrays["action:."][slots] - self.low
            return numbers.astype(self.narrow).view(np.uint8).reshape(len(slots), self.width)
        parts = [_as_bytes(leaf, arrays[f"action:{leaf.name}"][slots]) for leaf in leaves(self.node)]
        return np.concatenate(parts, axis=1)

    def fits(self, arrays: Mapping[str, npt.NDArray[Any]], slots: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which actions come back as they were: a number outside its Discrete does not."""
        if self.narrow is None:
            return np.ones(len(slots), np.bool_)
        numbers = arrays["action:."][slots]
        fits: npt.NDArray[np.bool_] = (numbers >= self.low) & (numbers <= self.high)
        return fits

    def decode(self, row: bytes) -> Any:
        """The action as the environment got it."""
        if self.narrow is not None:
            return int(np.frombuffer(row, self.narrow)[0]) + self.low
        at = 0

        def value_of(leaf: Leaf) -> Any:
            nonlocal at
            piece, at = row[at : at + _row_bytes(leaf)], at + _row_bytes(leaf)
            array = np.frombuffer(piece, leaf.dtype).reshape(leaf.shape).copy()
            return int(array) if leaf.is_scalar_int else array

        return assemble(self.node, value_of)


def _as_bytes(leaf: Leaf, rows: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), _row_bytes(leaf))


def _row_bytes(leaf: Leaf) -> int:
    return int(np.dtype(leaf.dtype).itemsize * np.prod(leaf.shape, dtype=np.int64))
