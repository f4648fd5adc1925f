"""The byte map of a shared segment: which array starts where.

Pure arithmetic. Every array starts on its own cache line, so that two arrays written by different processes never share
one. Parent and workers compute the same map from the same fields; ``digest`` lets them prove it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

CACHE_LINE = 64


@dataclass(frozen=True)
class LayoutField:
    """One named array of a segment."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def nbytes(self) -> int:
        """Size of the array in bytes."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Layout:
    """Fields with their byte offsets, and the size of the whole."""

    fields: tuple[LayoutField, ...]
    offsets: tuple[int, ...]
    nbytes: int

    @classmethod
    def of(cls, fields: Iterable[LayoutField]) -> Layout:
        """Lay fields out one after the other, each on its own cache line."""
        fields = tuple(fields)
        offsets, at = [], 0
        for field in fields:
            offsets.append(at)
            at += -(-field.nbytes // CACHE_LINE) * CACHE_LINE
        return cls(fields, tuple(offsets), max(at, CACHE_LINE))

    @property
    def digest(self) -> str:
        """Short fingerprint of the map; equal digests mean equal maps."""
        return hashlib.sha256(repr((self.fields, self.offsets)).encode()).hexdigest()[:16]

    def views(self, buffer: Any) -> Mapping[str, npt.NDArray[Any]]:
        """Numpy arrays over ``buffer``, one per field, without copying."""
        return {
            field.name: np.ndarray(field.shape, field.dtype, buffer, offset)
            for field, offset in zip(self.fields, self.offsets, strict=True)
        }
