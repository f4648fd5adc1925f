"""A game's variables by name: the address of each and how its bytes are read. Plain data, also from a file.

Owns the keys of a map and rejects wrong ones before a game runs. Reading a running machine is done by ``ram``.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ninelives.errors import ConfigError

NUMBERS = {"u8": "u1", "i8": "i1", "u16": "u2", "i16": "i2", "u32": "u4", "i32": "i4"}
"""Kinds that numpy can read, and numpy's names for them."""

DECIMALS = ("bcd", "digits")
"""Kinds that hold decimal digits: two per byte, or one."""

KINDS = (*NUMBERS, *DECIMALS)
ENDIANS = {"little": "<", "big": ">"}


def _as_bool(value: Any) -> Any:
    return (value != 0).astype(np.uint8) if isinstance(value, np.ndarray) else int(value != 0)


def _count_bits(value: Any) -> int:
    """Number of bits set in an array or a number; ``ram`` passes negative numbers as unsigned."""
    return int.from_bytes(value.tobytes(), "little").bit_count() if isinstance(value, np.ndarray) else value.bit_count()


TRANSFORMS: dict[str, Callable[[Any], Any]] = {"bool": _as_bool, "bits": _count_bits}
"""Transforms that a file may name. ``bool``: one where not zero; ``bits``: number of bits set in the whole field."""

_LIMIT = 1 << 32
_MOST_CELLS = 1 << 20
_MOST_DIGIT_BYTES = 9
"""Eighteen digits always fit into a 64-bit number."""

Ram = Mapping[str, Any]
"""The values of all fields at one moment, by name: an int, or an array that is not overwritten later."""


@dataclass(frozen=True)
class Field:
    """One variable of a game.

    Attributes:
        address: bus address; with ``bank`` an offset into it, with ``pointer`` an offset from where it points.
        kind: ``u8 i8 u16 i16 u32 i32``, ``bcd`` (two decimal digits per byte) or ``digits`` (one per byte).
        count: number of elements; for a decimal kind, number of bytes of the number.
        shape: shape of the array, instead of ``count``.
        endian: byte order; for a decimal kind, ``big`` means the most significant digit first.
        bank: name of the region that ``address`` is relative to, as listed in error messages.
        mask: bits to keep.
        shift: number of bits to shift right after masking.
        transform: a name from ``TRANSFORMS``, or a function of the value without memory.
        pointer: address of a 32-bit pointer that is followed at every step.
        null: the value, before the transform, while the pointer is not valid; without it that is an error.
    """

    address: int
    kind: str = "u8"
    count: int | None = None
    shape: tuple[int, ...] = ()
    endian: str = "little"
    bank: str | None = None
    mask: int | None = None
    shift: int = 0
    transform: str | Callable[[Any], Any] | None = None
    pointer: int | None = None
    null: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _shape(self.shape))
        _one_of("kind", self.kind, KINDS)
        _one_of("endian", self.endian, tuple(ENDIANS))
        for key in ("address", "count", "mask", "shift", "pointer", "null"):
            _whole(key, getattr(self, key), optional=key not in ("address", "shift"), signed=key in ("address", "null"))
        if self.address < 0 and self.pointer is None:
            raise ConfigError(f"address={self.address} must not be negative, except behind a pointer")
        if not callable(self.transform) and self.transform is not None:
            _one_of("transform", self.transform, tuple(TRANSFORMS))
        if self.bank is not None and not isinstance(self.bank, str):
            raise ConfigError(f"bank={self.bank!r} must be the name of a region")
        self._check_size()
        self._check_pointer()

    def _check_size(self) -> None:
        if self.count is not None and self.shape:
            raise ConfigError(f"count={self.count} and shape={self.shape}: give only one of them")
        if self.count == 0:
            raise ConfigError("count=0 must be at least 1")
        if self.shift > 31:
            raise ConfigError(f"shift={self.shift} must be at most 31")
        if self.is_decimal and (self.shape or self.mask is not None or self.shift):
            raise ConfigError(f"kind={self.kind!r} takes count, the bytes of the number, but no shape, mask or shift")
        if self.is_decimal and (self.count or 1) > _MOST_DIGIT_BYTES:
            raise ConfigError(f"count={self.count} of kind {self.kind!r} must be at most {_MOST_DIGIT_BYTES}")
        if (self.mask is not None or self.shift) and self.kind.startswith("i"):
            raise ConfigError(f"kind={self.kind!r} takes no mask or shift; read it as {'u' + self.kind[1:]!r}")
        if self.mask is not None and self.mask >> 8 * self.dtype.itemsize:
            raise ConfigError(f"mask={self.mask:#x} has more bits than kind {self.kind!r}")
        if self.size > _MOST_CELLS:
            raise ConfigError(f"count or shape ask for {self.size:,} bytes; allowed: {_MOST_CELLS:,}")

    def _check_pointer(self) -> None:
        if self.pointer is not None and self.bank is not None:
            raise ConfigError(f"pointer={self.pointer:#x} and bank={self.bank!r}: give only one of them")
        if self.pointer is None and self.null is not None:
            raise ConfigError(f"null={self.null} needs a pointer")
        if self.null is not None and not self.is_decimal:
            limits = np.iinfo(self.dtype)
            if not limits.min <= self.null <= limits.max:
                raise ConfigError(
                    f"null={self.null} is out of range; kind {self.kind!r} has {limits.min} to {limits.max}"
                )

    @property
    def is_decimal(self) -> bool:
        """Whether it is a number made of decimal digits."""
        return self.kind in DECIMALS

    @property
    def dims(self) -> tuple[int, ...]:
        """The shape of the value; empty for a single number."""
        if self.is_decimal or (self.count is None and not self.shape):
            return ()
        return self.shape or (self.count or 1,)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the bytes."""
        return np.dtype("u1" if self.is_decimal else ENDIANS[self.endian] + NUMBERS[self.kind])

    @property
    def size(self) -> int:
        """Its size in bytes."""
        cells = int(np.prod(self.dims, dtype=object)) if not self.is_decimal else self.count or 1
        return cells * self.dtype.itemsize


@dataclass(frozen=True)
class MemoryMap:
    """The variables of one game.

    Attributes:
        fields: the variables by name.
        derived: more variables by name, each a function (without memory) of the variables before it.
    """

    fields: Mapping[str, Field]
    derived: Mapping[str, Callable[[Ram], Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in (*self.fields, *self.derived):
            if not isinstance(name, str) or not name.isidentifier():
                raise ConfigError(f"memory map: {name!r} is not a valid field name; allowed: letters, digits and _")
        if twice := sorted(set(self.fields) & set(self.derived)):
            raise ConfigError(f"memory map: {twice[0]!r} is both a field and derived; rename one of them")

    def __iter__(self) -> Iterator[str]:
        return iter((*self.fields, *self.derived))

    def __contains__(self, name: object) -> bool:
        return name in self.fields or name in self.derived

    @classmethod
    def of(cls, source: MemoryMap | Mapping[str, Any] | str | Path) -> MemoryMap:
        """A map from a map, a mapping of names to fields (or to mappings of their keys), or a file with these.

        Raises:
            ConfigError: with file, field, key, value and what is allowed.
        """
        if isinstance(source, MemoryMap):
            return source
        if isinstance(source, str | Path):
            return cls._from(_parsed(Path(source)), str(source))
        return cls._from(source, "memory map")

    @classmethod
    def _from(cls, words: Any, where: str) -> MemoryMap:
        if not isinstance(words, Mapping) or not words:
            raise ConfigError(f"{where}: must map names to fields, like {{'hp': {{'address': 0x2000010}}}}")
        for name in words:
            if not isinstance(name, str):
                raise ConfigError(
                    f"{where}: {name!r} is not a valid field name; allowed: strings. YAML does not read on, off, yes, "
                    "no and numbers as strings: put the name in quotes"
                )
        fields = {name: _field(word, f"{where}: {name}") for name, word in words.items()}
        try:
            return cls(fields)
        except ConfigError as error:
            raise ConfigError(str(error).replace("memory map", where, 1)) from None


_KEYS = tuple(f.name for f in dataclasses.fields(Field))


def _field(words: Any, where: str) -> Field:
    if isinstance(words, Field):
        return words
    if not isinstance(words, Mapping):
        raise ConfigError(f"{where}: {words!r} must be a mapping with an address; allowed keys: {', '.join(_KEYS)}")
    words = {"null" if key is None else key: value for key, value in words.items()}  # YAML reads a bare null as None
    for key in words:
        if key not in _KEYS:
            near = difflib.get_close_matches(str(key), _KEYS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; allowed: {', '.join(_KEYS)}"
            raise ConfigError(f"{where}: no key {key!r}{hint}")
    if "address" not in words:
        raise ConfigError(f"{where}: address is missing")
    try:
        return Field(**{key: _number(value) if key != "bank" else value for key, value in words.items()})
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _number(value: Any) -> Any:
    """The value of a string like ``0x10``: JSON has no hexadecimal numbers."""
    if isinstance(value, str) and value[:2].lower() == "0x":
        try:
            return int(value, 16)
        except ValueError:
            return value
    return value


def _parsed(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: the memory map cannot be read: {error}") from None
    if path.suffix == ".json":
        try:
            return json.loads(text, object_pairs_hook=_once)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{path}: not JSON: {error}") from None
    if path.suffix in (".yaml", ".yml"):
        return _yaml(text, path)
    raise ConfigError(f"{path}: a memory map is a .yaml, .yml or .json file")


def _yaml(text: str, path: Path) -> Any:
    try:
        yaml: Any = importlib.import_module("yaml")
    except ImportError:
        raise ConfigError(f"{path}: reading YAML needs PyYAML: pip install 'ninelives[emulators]'") from None
    try:
        for mapping in _outer_mappings(yaml.compose(text, yaml.SafeLoader)):
            _once([(key.value, None) for key, _ in mapping if key.id == "scalar"])
        return yaml.safe_load(text)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())}") from None


def _outer_mappings(root: Any) -> Iterator[list[Any]]:
    """The key-value pairs of a YAML document and of its values; deeper mappings are not fields and rejected later."""
    if root is not None and root.id == "mapping":
        for node in (root, *(value for _, value in root.value)):
            if node.id == "mapping":
                yield node.value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Pairs as a mapping without duplicate keys, which both parsers would silently accept."""
    words = dict(pairs)
    if len(words) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ConfigError(f"{twice!r} is given twice; give it once")
    return words


def _shape(value: Any) -> tuple[int, ...]:
    cells = (value,) if isinstance(value, int) else value
    good = isinstance(cells, tuple | list) and all(type(n) is int and n > 0 for n in cells) and len(cells) <= 8
    if not good:
        raise ConfigError(f"shape={value!r} must be a list of numbers above zero")
    return tuple(cells)


def _one_of(key: str, value: Any, allowed: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in allowed:
        raise ConfigError(f"{key}={value!r} is not known; allowed: {', '.join(allowed)}")


def _whole(key: str, value: Any, *, optional: bool, signed: bool) -> None:
    if value is None and optional:
        return
    if type(value) is not int:
        raise ConfigError(f"{key}={value!r} must be a whole number")
    if not (-_LIMIT if signed else 0) <= value < _LIMIT:
        raise ConfigError(f"{key}={value} must be {'' if signed else 'at least 0 and '}within 32 bits")
