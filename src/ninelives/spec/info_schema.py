"""The layout of infos that are numbers: which keys, of which types, at which bytes of a slot's place in the slab.

Pure data. A worker learns a schema from an info and announces it once; from then on an info that fits is a few stores.
Only values that can be given back exactly have a place: Python's and NumPy's numbers, and arrays of them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

INFO_BYTES = 512
"""A slot's place for infos; larger ones travel by mailbox."""

ALIGNMENT = 8
MAX_FIELDS = INFO_BYTES // ALIGNMENT
MAX_DIMS = 8
MAX_SCHEMAS = 8
"""Schemas of one slot: infos of resets, steps and endings differ in their keys. worker/_infos.c has the same number."""

NUMBERS = "?bBhHiIlLqQefdFD"
"""Type characters of numbers whose bytes are their value; a long double has padding."""

PYTHON = {int: "q", float: "d", bool: "?"}
_PYTHON_NAMES = {kind.__name__: (kind, char) for kind, char in PYTHON.items()}
SCALAR, ARRAY = "scalar", "array"

_BOOLS = np.empty(2, object)
_BOOLS[:] = [np.False_, np.True_]

Description = tuple[tuple[str, str, str, tuple[int, ...]], ...]
"""(key, kind, type character, shape) of each value, in the order of the info; plain data."""


@dataclass(frozen=True)
class InfoField:
    """One value: ``kind`` is the name of a Python type, ``scalar`` for NumPy's scalars, or ``array``."""

    key: str
    kind: str
    char: str
    shape: tuple[int, ...]
    offset: int

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """Of the bytes in the slab."""
        return np.dtype(self.char)

    @property
    def nbytes(self) -> int:
        """How many bytes the value takes."""
        return math.prod(self.shape) * self.dtype.itemsize

    @cached_property
    def column_dtype(self) -> np.dtype[Any]:
        """Of the column over a batch, as Gymnasium chooses it: NumPy's booleans are no numbers there."""
        if self.kind in _PYTHON_NAMES:
            return np.dtype(_PYTHON_NAMES[self.kind][0])
        return np.dtype(object) if self.is_object else self.dtype

    @property
    def is_object(self) -> bool:
        """Whether the column is one of objects."""
        return self.kind == SCALAR and self.char == "?"

    def empty_column(self, size: int) -> npt.NDArray[Any]:
        """A column in which no row has a value."""
        return np.full((size, *self.shape), None if self.is_object else 0, self.column_dtype)

    def column(self, rows: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
        """The values of some rows of bytes, as a fresh array."""
        raw = np.ascontiguousarray(rows[:, self.offset : self.offset + self.nbytes])
        values = raw.view(self.dtype).reshape(len(rows), *self.shape)
        return _BOOLS[values.astype(np.intp)] if self.is_object else values.astype(self.column_dtype)

    def value(self, row: npt.NDArray[np.uint8]) -> Any:
        """The value in one row of bytes, in its own type."""
        array = row[self.offset : self.offset + self.nbytes].copy().view(self.dtype)
        if self.kind == ARRAY:
            return array.reshape(self.shape)
        return array[0] if self.kind == SCALAR else array[0].item()

    def write(self, row: npt.NDArray[np.uint8], value: Any) -> None:
        """Put a value of this field into a row of bytes."""
        array = np.asarray(value, self.dtype, order="C").reshape(-1)
        row[self.offset : self.offset + self.nbytes] = array.view(np.uint8)

    def fits(self, value: Any) -> bool:
        """Whether a value is exactly of this field's type and shape."""
        kind = kind_of(value)
        if kind != (self.kind, self.char, self.shape):
            return False
        return self.kind != "int" or -(2**63) <= value < 2**63


@dataclass(frozen=True)
class InfoSchema:
    """An ordered set of fields. ``number`` stands for it in shared memory; equal schemas have equal numbers."""

    fields: tuple[InfoField, ...]
    number: int

    @classmethod
    def of(cls, description: Description) -> Self:
        """Place the fields one after the other.

        Raises:
            ValueError: no worker of ours would describe infos like that.
        """
        fields, at = [], 0
        for key, kind, char, shape in description:
            field = InfoField(key, kind, char, tuple(shape), at)
            _check(field)
            fields.append(field)
            at += -(-field.nbytes // ALIGNMENT) * ALIGNMENT
        if at > INFO_BYTES or len(fields) > MAX_FIELDS or len({field.key for field in fields}) < len(fields):
            raise ValueError(f"{len(fields)} infos of {at} bytes do not fit, or two have the same key")
        digest = hashlib.blake2b(repr(tuple(description)).encode("utf-8", "backslashreplace"), digest_size=8).digest()
        return cls(tuple(fields), int.from_bytes(digest, "little") or 1)

    @classmethod
    def learned(cls, info: Mapping[Any, Any]) -> Self | None:
        """The schema of an info; None where some value must travel by mailbox."""
        description = []
        for key, value in info.items():
            kind = kind_of(value)
            if kind is None or type(key) is not str or key.startswith("_") or key == "final_obs":
                return None
            description.append((key, *kind))
        try:
            return cls.of(tuple(description))
        except ValueError:
            return None

    @property
    def description(self) -> Description:
        """What is announced."""
        return tuple((field.key, field.kind, field.char, field.shape) for field in self.fields)

    @cached_property
    def layout(self) -> tuple[tuple[str, str, np.dtype[Any], tuple[int, ...], int, int], ...]:
        """What the native packer needs of each field: key, kind, dtype, shape, offset, bytes."""
        return tuple((f.key, f.kind, f.dtype, f.shape, f.offset, f.nbytes) for f in self.fields)

    @cached_property
    def plan(self) -> tuple[tuple[str, str, int, np.dtype[Any] | None, tuple[int, ...]], ...]:
        """What the native code needs of each column: key, mask, offset, dtype (None: NumPy's booleans), shape."""
        return tuple(
            (f.key, f"_{f.key}", f.offset, None if f.is_object else f.column_dtype, f.shape) for f in self.fields
        )

    def info(self, row: npt.NDArray[np.uint8]) -> dict[str, Any]:
        """The info in one row of bytes."""
        return {field.key: field.value(row) for field in self.fields}


def kind_of(value: Any) -> tuple[str, str, tuple[int, ...]] | None:
    """Kind, type character and shape of a value that has a place in the slab; None for every other value."""
    char = PYTHON.get(type(value))
    if char is not None:
        return type(value).__name__, char, ()
    if type(value) is np.ndarray and value.ndim <= MAX_DIMS and value.nbytes <= INFO_BYTES:
        dtype, kind = value.dtype, ARRAY
    elif isinstance(value, np.generic):
        dtype, kind = value.dtype, SCALAR
    else:
        return None
    is_number = dtype.char in NUMBERS and dtype.isnative and dtype.metadata is None
    is_exact = kind == ARRAY or type(value) is dtype.type
    return (kind, dtype.char, value.shape) if is_number and is_exact else None


def _check(field: InfoField) -> None:
    texts = (field.key, field.kind, field.char)
    if not all(isinstance(text, str) for text in texts) or field.key.startswith("_") or field.key == "final_obs":
        raise ValueError(f"{texts} is no info")
    is_python = field.kind in _PYTHON_NAMES and _PYTHON_NAMES[field.kind][1] == field.char
    if not is_python and (field.kind not in (SCALAR, ARRAY) or len(field.char) != 1 or field.char not in NUMBERS):
        raise ValueError(f"{field.key!r} has an unknown type")
    sizes = field.shape
    if len(sizes) > (MAX_DIMS if field.kind == ARRAY else 0) or not all(type(n) is int and n >= 0 for n in sizes):
        raise ValueError(f"{field.key!r} has an impossible shape")
    if field.nbytes > INFO_BYTES:
        raise ValueError(f"{field.key!r} has an impossible size")
