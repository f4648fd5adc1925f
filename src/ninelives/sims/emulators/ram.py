"""Reads the fields of a memory map from a running machine, once per step, in a few microseconds.

Everything is resolved at construction: a field becomes one call on a live view. Only a field behind a pointer is
resolved again, and only when the pointer has changed. Never writes memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from ninelives.errors import ConfigError, EmulatorError
from ninelives.sims.emulators.machine import Memory
from ninelives.sims.emulators.memory_map import TRANSFORMS, Field, MemoryMap

Get = Callable[[], Any]

_POINTER_BYTES = 4
_END_OF_BUS = 1 << 32


class RamReader:
    """The fields of a map in one machine's memory."""

    def __init__(self, memory_map: MemoryMap, memory: Memory) -> None:
        self._map = memory_map
        self._gets = [(name, _getter(name, field, memory)) for name, field in memory_map.fields.items()]
        self._derived = list(memory_map.derived.items())

    def read(self) -> dict[str, Any]:
        """The current value of every field: ints, and arrays that belong to the caller."""
        ram = {name: get() for name, get in self._gets}
        for name, function in self._derived:
            ram[name] = function(ram)
        return ram

    def space(self, name: str, value: Any) -> gymnasium.spaces.Box:
        """The space of a field whose current value is ``value``; a single number is an array of length one."""
        field = self._map.fields.get(name)
        if field is None or callable(field.transform):
            return _space_like(name, np.asarray(value))
        if field.transform is None and not field.is_decimal:
            return _space_of_number(field)
        high = 1 if field.transform == "bool" else 8 * field.size
        if field.transform is None:
            high = 10 ** (len(_digits(field)) * (field.count or 1)) - 1
        null = field.null or 0 if field.is_decimal else 0
        return gymnasium.spaces.Box(min(0, null), max(high, null), np.shape(value) or (1,), np.int64)


def _space_of_number(field: Field) -> gymnasium.spaces.Box:
    limits = np.iinfo(field.dtype)
    high = (limits.max if field.mask is None else field.mask) >> field.shift
    dtype = field.dtype.newbyteorder("=").type
    return gymnasium.spaces.Box(limits.min, max(high, field.null or 0), field.dims or (1,), dtype)


def _space_like(name: str, value: npt.NDArray[Any]) -> gymnasium.spaces.Box:
    """A space with the bounds of 64-bit numbers, because nothing else is known."""
    if value.dtype.kind == "f":
        return gymnasium.spaces.Box(-np.inf, np.inf, value.shape or (1,), value.dtype.type)
    if value.dtype.kind in "biu":
        limits = np.iinfo(np.int64)
        return gymnasium.spaces.Box(limits.min, limits.max, value.shape or (1,), np.int64)
    raise ConfigError(f"observe: {name!r} is of type {value.dtype}; allowed: a number or an array of numbers")


def _digits(field: Field) -> str:
    return "00" if field.kind == "bcd" else "0"


# ---- how a field is read ------------------------------------------------------------------------------------------


def _getter(name: str, field: Field, memory: Memory) -> Get:
    try:
        if field.pointer is not None:
            return _Followed(name, field, memory)
        return _decoder(field, memory.view(_address(field, memory), field.size))
    except EmulatorError as error:
        raise ConfigError(f"memory map: {name} cannot be read: {error}") from error


def _address(field: Field, memory: Memory) -> int:
    if field.bank is None:
        return field.address
    for name, start, size in memory.regions():
        if name == field.bank:
            if field.address + field.size > size:
                raise EmulatorError(
                    f"{field.size} bytes at {field.address:#x} reach beyond the end of {name} ({size:#x} bytes)"
                )
            return start + field.address
    names = ", ".join(name for name, _, _ in memory.regions())
    raise EmulatorError(f"there is no bank {field.bank!r}; allowed: {names}")


def _decoder(field: Field, cells: npt.NDArray[np.uint8]) -> Get:
    """A function that reads these live bytes as the field describes."""
    return _transformed(field, _masked(field, _decimal(field, cells) if field.is_decimal else _plain(field, cells)))


def _plain(field: Field, cells: npt.NDArray[np.uint8]) -> Get:
    typed = cells.view(field.dtype)
    if not field.dims:
        return typed.item
    native = field.dtype.newbyteorder("=")
    return partial(typed.reshape(field.dims).astype, native)  # astype copies


def _decimal(field: Field, cells: npt.NDArray[np.uint8]) -> Get:
    base, values = (100, _OF_BCD) if field.kind == "bcd" else (10, _OF_DIGIT)
    ordered = cells if field.endian == "big" else cells[::-1]

    def number() -> int:
        total = 0
        for cell in ordered.tobytes():
            total = total * base + values[cell]
        return total

    return number


def _digit(nibble: int) -> int:
    return nibble if nibble < 10 else 0


_OF_DIGIT = [_digit(cell) for cell in range(256)]
_OF_BCD = [10 * _digit(cell >> 4) + _digit(cell & 15) for cell in range(256)]
"""Values that are not digits count as zero: screens and fresh memory contain blanks."""


def _masked(field: Field, get: Get) -> Get:
    mask, shift = field.mask, field.shift
    if mask is None:
        return get if not shift else lambda: get() >> shift
    return lambda: (get() & mask) >> shift


def _transformed(field: Field, get: Get) -> Get:
    if field.transform is None:
        return get
    function = field.transform if callable(field.transform) else TRANSFORMS[field.transform]
    if field.transform == "bits" and field.kind.startswith("i") and not field.dims:
        bits = (1 << 8 * field.size) - 1  # count the bits of a negative number's bytes, not those of its magnitude
        return lambda: function(get() & bits)
    return lambda: function(get())


class _Followed:
    """A field behind a pointer; resolved again whenever the pointer has changed."""

    def __init__(self, name: str, field: Field, memory: Memory) -> None:
        assert field.pointer is not None
        self._name, self._field, self._memory = name, field, memory
        self._pointer: Callable[[], int] = memory.view(field.pointer, _POINTER_BYTES).view("<u4").item
        self._target: int | None = None
        self._get: Get = self._pointer

    def __call__(self) -> Any:
        target = self._pointer()
        if target != self._target:
            self._get = self._follow(target)
            self._target = target
        return self._get()

    def _follow(self, target: int) -> Get:
        try:
            return _decoder(self._field, self._cells(target))
        except EmulatorError as error:
            if self._field.null is not None:
                return self._nothing(self._field.null)
            raise EmulatorError(
                f"memory map: {self._name} cannot be read: the pointer at {self._field.pointer:#x} is {target:#x}, "
                f"which is not a valid address ({error}); give the field null=..., the value to use meanwhile"
            ) from error

    def _cells(self, target: int) -> npt.NDArray[np.uint8]:
        first = target + self._field.address
        if not target or first < 0 or first + self._field.size > _END_OF_BUS:
            raise EmulatorError("null" if not target else f"{first:#x} is outside the bus")
        return self._memory.view(first, self._field.size)

    def _nothing(self, null: int) -> Get:
        dims, dtype = self._field.dims, self._field.dtype.newbyteorder("=")
        return _transformed(self._field, np.full(dims, null, dtype).copy if dims else lambda: null)
