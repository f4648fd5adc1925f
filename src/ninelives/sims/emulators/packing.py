"""Converts plain values to JSON and blobs, and back: numbers, strings, lists, dicts, bytes and arrays. No code.

Tuples come back as lists. The input may be untrusted: anything unexpected is a ValueError.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_BLOB, _ARRAY = "$blob", "$array"
_SAFE_KINDS = "biufc"
_SAFE_DTYPE = re.compile(f"[<>|=][{_SAFE_KINDS}][0-9]{{1,2}}")  # numpy's own parser can run code for others
_PLAIN = frozenset((type(None), str, bool, int, float))


def pack(value: Any, blobs: list[bytes], where: str) -> Any:
    """A value as JSON; its bytes and arrays are appended to ``blobs``.

    Raises:
        TypeError: a value of another type; the message says where.
    """
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str) or key in (_BLOB, _ARRAY):
                raise TypeError(f"{where} has the key {key!r}; allowed: strings other than {_BLOB!r} and {_ARRAY!r}")
        # The path for messages is only built for containers: most values are plain.
        return {
            key: item if type(item) in _PLAIN else pack(item, blobs, f"{where}.{key}") for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [
            item if type(item) in _PLAIN else pack(item, blobs, f"{where}[{number}]")
            for number, item in enumerate(value)
        ]
    return _packed_leaf(value, blobs, where)


def _packed_leaf(value: Any, blobs: list[bytes], where: str) -> Any:
    if isinstance(value, bytes):
        blobs.append(value)
        return {_BLOB: len(blobs) - 1}
    if isinstance(value, np.ndarray) and value.dtype.kind in _SAFE_KINDS:
        blobs.append(value.tobytes())
        return {_ARRAY: [len(blobs) - 1, value.dtype.str, list(value.shape)]}
    if isinstance(value, np.number | np.bool_):
        return value.item()
    if isinstance(value, str | bool | int | float):
        return value
    raise TypeError(
        f"{where} is a {type(value).__name__}, which cannot be saved; allowed: numbers, strings, bytes, lists, dicts "
        "with string keys, arrays of numbers, None"
    )


def unpack(value: Any, blobs: Sequence[bytes]) -> Any:
    """The value that was given to ``pack``.

    Raises:
        ValueError: it refers to a blob that is missing or has the wrong size.
    """
    if isinstance(value, list):
        return [unpack(item, blobs) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {_BLOB}:
        return _blob(value[_BLOB], blobs)
    if set(value) == {_ARRAY}:
        return _array(value[_ARRAY], blobs)
    return {key: unpack(item, blobs) for key, item in value.items()}


def _blob(number: Any, blobs: Sequence[bytes]) -> bytes:
    if type(number) is not int or not 0 <= number < len(blobs):
        raise ValueError(f"there is no blob {number!r}")
    return blobs[number]


def _array(words: Any, blobs: Sequence[bytes]) -> Any:
    number, kind, shape = words
    if not isinstance(kind, str) or not _SAFE_DTYPE.fullmatch(kind):
        raise ValueError(f"an array of {kind!r}")
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"an array of shape {shape!r}")
    return np.frombuffer(_blob(number, blobs), np.dtype(kind)).reshape(shape).copy()


def split(body: bytes, sizes: Any) -> list[bytes]:
    """Split a body into its blobs.

    Raises:
        ValueError: the sizes do not add up to the body's size.
    """
    if not isinstance(sizes, list) or not all(type(size) is int and size >= 0 for size in sizes):
        raise ValueError("the sizes are not a list of integers")
    if sum(sizes) != len(body):
        raise ValueError(f"blobs of {sum(sizes)} bytes in a body of {len(body)}")
    ends = np.cumsum(sizes, dtype=np.int64).tolist()
    return [body[end - size : end] for end, size in zip(ends, sizes, strict=True)]
