"""The file format of a checkpoint: metadata, a tree of values and the bytes of its arrays, with one SHA-256.

::

    magic  format │ lengths of three parts │ SHA-256 of them │ metadata (JSON) │ tree (JSON) │ arrays, one by one
    10 B     4 B  │        3 x 8 B         │      32 B       │

Owns the bytes. Reading a file never runs code from it: there is no pickle in it, unless the caller stored pickled bytes
as a value. Must never know about training or directories.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ninelives.errors import CheckpointError, ConfigError, NinelivesError

MAGIC = b"\x93NINELIVES"
FORMAT = 1
"""Every version reads the file up to this number; what follows may change with it."""

_HEAD = struct.Struct(f"<{len(MAGIC)}sI")
_REST = struct.Struct("<3Q32s")

_KNOWN_BEGINNINGS = {
    b"PK\x03\x04": "a zip file, as torch.save and Stable-Baselines3 write them",
    b"\x80": "a pickle",
    b"\x93NUMPY": "a NumPy array",
    b"\x89PNG": "an image",
}


_SAFE_DTYPE = re.compile(r"[<>|=][biufcSUmMV][0-9]{1,9}(\[[0-9]*[a-zA-Z]+\])?")
"""What ``dtype.str`` is for plain values; numpy's own parser accepts far more."""


class DamagedError(CheckpointError):
    """The file itself is of no use to any version: truncated, changed or forged, or not a checkpoint at all."""


@dataclass(frozen=True)
class Contents:
    """What a container holds: ``metadata`` that can be read alone, and the ``tree``."""

    metadata: dict[str, Any]
    tree: Any


def packed(metadata: Mapping[str, Any], tree: Any) -> bytes:
    """The bytes of a container.

    Raises:
        TypeError: the tree holds a value that cannot be stored; names its place.
    """
    parts = (_json(metadata), *_packed_tree(tree))
    return b"".join((_HEAD.pack(MAGIC, FORMAT), _REST.pack(*map(len, parts), _sha256(parts).digest()), *parts))


def sha256_of_tree(tree: Any) -> str:
    """One hash of every value, name, dtype, shape and bit of a tree, in its order."""
    return _sha256(_packed_tree(tree)).hexdigest()


def read(path: Path) -> Contents:
    """Read everything in a container.

    Raises:
        CheckpointError: the file is missing, not a checkpoint, newer than this version, truncated or damaged.
    """
    metadata, tree, blobs = _parts(path)
    with understood(path):
        return Contents(_mapping(json.loads(metadata)), _Reader(blobs).value(json.loads(tree)))


def read_metadata(path: Path) -> dict[str, Any]:
    """Read only the metadata of an intact container; needs no torch."""
    metadata = _parts(path)[0]
    with understood(path):
        return _mapping(json.loads(metadata))


@contextmanager
def understood(path: Path) -> Iterator[None]:
    """Around code that takes the contents of a file apart, which may be forged although their hash is right.

    Raises:
        CheckpointError: instead of whatever that code raised, except the errors of workers.
    """
    try:
        yield
    except (CheckpointError, ConfigError) as error:
        if str(path) in str(error):
            raise
        raise CheckpointError(f"checkpoint {path}: {error}") from error
    except NinelivesError:
        raise
    except Exception as error:  # what foreign values raise has no end: numpy, torch and json each have their own
        raise DamagedError(
            f"checkpoint {path} is damaged: its SHA-256 is right, but its contents are not those of a checkpoint "
            f"({type(error).__name__}: {str(error)[:200]}). Resume from the one before it with --resume-previous; if "
            "that reports this file again, move it elsewhere first"
        ) from error


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"the metadata are a {type(value).__name__}")
    return value


def _parts(path: Path) -> list[bytes]:
    """The three parts of a file, verified."""
    data = _bytes_of(path)
    _check_kind(path, data)
    if len(data) < _HEAD.size + _REST.size:
        raise _truncated(path, len(data), None)
    *lengths, digest = _REST.unpack_from(data, _HEAD.size)
    begin = _HEAD.size + _REST.size
    size = begin + sum(lengths)
    if len(data) < size:
        raise _truncated(path, len(data), size)
    if len(data) > size or hashlib.sha256(memoryview(data)[begin:]).digest() != digest:
        raise DamagedError(
            f"checkpoint {path} is damaged: its contents do not match the SHA-256 that was written with them. "
            "Resume from the one before it with --resume-previous"
        )
    parts = []
    for length in lengths:
        parts.append(data[begin : begin + length])
        begin += length
    return parts


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise CheckpointError(f"there is no checkpoint {path}") from None
    except OSError as error:
        raise CheckpointError(f"checkpoint {path} cannot be read: {error.strerror or error}") from error


def _check_kind(path: Path, data: bytes) -> None:
    if not data:
        raise _truncated(path, 0, None)
    if not (data.startswith(MAGIC) or MAGIC.startswith(data)):
        looks = next((what for start, what in _KNOWN_BEGINNINGS.items() if data.startswith(start)), "")
        looks = looks or f"it begins with {data[:8]!r}"
        raise DamagedError(
            f"{path} is not a checkpoint of Ninelives: {looks}. Name a file in the checkpoints/ of a run directory"
        )
    if len(data) < _HEAD.size:
        raise _truncated(path, len(data), None)
    number = _HEAD.unpack_from(data)[1]
    if number > FORMAT:
        raise CheckpointError(
            f"checkpoint {path} has format {number}, and this Ninelives reads formats up to {FORMAT}: a newer version "
            "wrote it. Install that version; to continue from an older checkpoint, move this one elsewhere first"
        )
    if number < 1:
        raise DamagedError(f"checkpoint {path} is damaged: it has format {number}, which does not exist")


def _truncated(path: Path, there: int, size: int | None) -> DamagedError:
    of = "" if size is None else f" of {size}"
    return DamagedError(
        f"checkpoint {path} is truncated: it ends after {there}{of} bytes, as after a full disk or an interrupted "
        "copy. Resume from the one before it with --resume-previous"
    )


def _packed_tree(tree: Any) -> tuple[bytes, bytes]:
    blobs: list[bytes] = []
    return _json(_plain(tree, "state", blobs)), b"".join(blobs)


def _sha256(parts: Iterable[bytes]) -> hashlib._Hash:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


# ---- the tree: JSON, where a value that JSON cannot hold is a list that starts with its kind -------------------------


def _plain(value: Any, place: str, blobs: list[bytes]) -> Any:
    if value is None or isinstance(value, bool | str) or type(value) in (int, float):
        return value
    if isinstance(value, Mapping):
        pairs = [[_key(key, place), _plain(item, f"{place}.{key}", blobs)] for key, item in value.items()]
        return ["map", pairs]
    if type(value) in (list, tuple):
        items = [_plain(item, f"{place}[{number}]", blobs) for number, item in enumerate(value)]
        return [type(value).__name__, items]
    if isinstance(value, bytes | bytearray | memoryview):
        return ["bytes", _append(bytes(value), blobs)]
    if isinstance(value, np.ndarray | np.generic):
        return _plain_array(np.asarray(value), place, blobs)
    if (torch := sys.modules.get("torch")) is not None and isinstance(value, torch.Tensor):
        flat = value.detach().cpu().contiguous().reshape(-1)
        raw = flat.view(torch.uint8).numpy().tobytes()
        return ["tensor", str(value.dtype).removeprefix("torch."), list(value.shape), _append(raw, blobs)]
    raise TypeError(
        f"{place} is a {type(value).__name__}, which a checkpoint cannot hold; give its state as plain values"
    )


def _plain_array(array: npt.NDArray[Any], place: str, blobs: list[bytes]) -> Any:
    if array.dtype.hasobject or array.dtype.names:
        raise TypeError(f"{place} is an array of {array.dtype}, which a checkpoint cannot hold")
    return ["array", array.dtype.str, list(array.shape), _append(array.tobytes(), blobs)]


def _append(raw: bytes, blobs: list[bytes]) -> int:
    blobs.append(raw)
    return len(raw)


def _key(key: Any, place: str) -> Any:
    if isinstance(key, str) or type(key) is int:
        return key
    raise TypeError(f"{place} has the key {key!r}; keys of a checkpoint must be str or int")


class _Reader:
    """Rebuilds a tree. Blobs are stored in the order in which the tree refers to them.

    The tree may be forged: everything unexpected is a ValueError, and nothing is allocated that the file does not hold.
    """

    def __init__(self, blobs: bytes) -> None:
        self._blobs, self._taken = memoryview(blobs), 0

    def value(self, plain: Any) -> Any:
        tree = self._build(plain)
        if self._taken != len(self._blobs):
            raise ValueError(f"the tree refers to {self._taken:,} of {len(self._blobs):,} bytes")
        return tree

    def _build(self, node: Any) -> Any:
        match node:
            case None | bool() | int() | float() | str():
                return node
            case ["map", [*pairs]]:
                return {_str_or_int(key): self._build(item) for key, item in pairs}
            case ["list", [*items]]:
                return [self._build(item) for item in items]
            case ["tuple", [*items]]:
                return tuple(self._build(item) for item in items)
            case ["bytes", length]:
                return bytes(self._take(length))
            case ["array", str(dtype), [*shape], length]:
                return _array(dtype, shape, self._take(length))
            case ["tensor", str(dtype), [*shape], length]:
                return _tensor(dtype, shape, self._take(length))
        raise ValueError(f"the tree holds a {str(node)[:40]!r}, which is no value")

    def _take(self, length: Any) -> memoryview:
        if not 0 <= _size(length) <= len(self._blobs) - self._taken:
            raise ValueError(f"a value of {length} bytes, with {len(self._blobs) - self._taken} left")
        self._taken += length
        return self._blobs[self._taken - length : self._taken]


def _str_or_int(key: Any) -> str | int:
    if isinstance(key, str) or type(key) is int:
        return key
    raise ValueError(f"the key {key!r} is neither str nor int")


def _size(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no size")
    return value


def _array(dtype: str, shape: list[Any], raw: memoryview) -> npt.NDArray[Any]:
    if not _SAFE_DTYPE.fullmatch(dtype):
        raise ValueError(f"{dtype!r} is not the dtype of an array of plain values")
    kind = np.dtype(dtype)
    _check_size(shape, kind.itemsize, raw)
    return np.frombuffer(bytearray(raw), kind).reshape(shape)


def _tensor(dtype: str, shape: list[Any], raw: memoryview) -> Any:
    import torch

    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype):
        raise ValueError(f"{dtype!r} is not a dtype of torch")
    _check_size(shape, kind.itemsize, raw)
    if not raw:
        return torch.empty(shape, dtype=kind)
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(kind).reshape(shape)


def _check_size(shape: list[Any], itemsize: int, raw: memoryview) -> None:
    if math.prod(map(_size, shape)) * itemsize != len(raw):
        raise ValueError(f"a shape of {shape} does not have {len(raw)} bytes")
