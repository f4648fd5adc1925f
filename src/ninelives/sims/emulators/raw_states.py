"""States as emulators write them: extracts the core's own bytes from the file formats in use. Pure.

Known formats: a bare state, RetroArch's compressed file (``#RZIPv1#``), RetroArch's container (``RASTATE``), and the
screenshot files of desktop mGBA (``.ss0`` ... ``.ss9``, a PNG with private chunks).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from ninelives.errors import CheckpointError

_RZIP = b"#RZIPv\x01#"
_RZIP_HEAD = struct.Struct("<8sIQ")
_CONTAINER = b"RASTATE\x01"
_PNG = b"\x89PNG\r\n\x1a\n"
_MGBA_RECORD = struct.Struct("<IiQ")
_SCREENSHOT = 1
LARGEST = 64 << 20
"""Bytes that the compressed parts of one file may expand to: several times the largest state of any supported core."""

_BEGINS = {"FCEUmm": b"FCS"}
"""First bytes of the states of cores that do not check them."""


def core_state(data: bytes) -> bytes:
    """The core's own bytes.

    Raises:
        CheckpointError: the file is damaged or empty, or expands to more than ``LARGEST`` bytes.
    """
    try:
        if data.startswith(_RZIP):
            data = _unzipped(data)
        if data.startswith(_CONTAINER):
            data = _block(data, b"MEM ")
        elif data.startswith(_PNG):
            data = _from_picture(data)
    except (struct.error, zlib.error, ValueError) as error:
        raise CheckpointError(f"the emulator's state is damaged or cut short: {error}; save it again") from error
    if not data:
        raise CheckpointError("the emulator's state is empty; save it again")
    return data


def check_kind(state: bytes, core: str) -> None:
    """Reject bytes that a core would accept although they are not one of its states.

    Raises:
        CheckpointError: they do not start like that core's states.
    """
    begins = _BEGINS.get(core)
    if begins and not state.startswith(begins):
        raise CheckpointError(f"this is not a state of {core}: those start with {begins!r}, this with {state[:4]!r}")


def _unzipped(data: bytes) -> bytes:
    _, _, whole = _RZIP_HEAD.unpack_from(data)
    if whole > LARGEST:
        raise ValueError(f"it announces {whole:,} bytes, and at most {LARGEST:,} are allowed")
    out, at, inflater = bytearray(), _RZIP_HEAD.size, _Inflater(whole)
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        out += inflater.inflated(data[at + 4 : at + 4 + size])
        at += 4 + size
    if len(out) != whole:
        raise ValueError(f"{len(out):,} of {whole:,} bytes")
    return bytes(out)


def _block(data: bytes, wanted: bytes) -> bytes:
    at = len(_CONTAINER)
    while at < len(data):
        name, size = struct.unpack_from("<4sI", data, at)
        at += 8
        if at + size > len(data):
            raise ValueError(f"its part {name!r} is incomplete")
        if name == wanted:
            return data[at : at + size]
        at += (size + 7) & ~7
    raise ValueError(f"it has no part {wanted!r}")


def _from_picture(data: bytes) -> bytes:
    """The machine followed by mGBA's table of records, as its cores write them without a screenshot."""
    machine, records, inflater = b"", {}, _Inflater(LARGEST)
    for name, chunk in _chunks(data):
        if name == b"gbAs":
            machine = inflater.inflated(chunk)
        elif name == b"gbAx":
            tag, _ = struct.unpack_from("<Ii", chunk)
            records[tag] = inflater.inflated(chunk[8:])
    if not machine:
        raise ValueError("the picture does not contain a state of mGBA")
    records.pop(_SCREENSHOT, None)
    at = len(machine) + _MGBA_RECORD.size * (len(records) + 1)
    table = b""
    for tag, record in records.items():
        table += _MGBA_RECORD.pack(tag, len(record), at)
        at += len(record)
    return machine + table + bytes(_MGBA_RECORD.size) + b"".join(records.values())


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(_PNG)
    while at < len(data):
        size, name = struct.unpack_from(">I4s", data, at)
        chunk = data[at + 8 : at + 8 + size]
        (checksum,) = struct.unpack_from(">I", data, at + 8 + size)
        if zlib.crc32(name + chunk) != checksum:
            raise ValueError(f"the checksum of its part {name!r} does not match")
        yield name, chunk
        at += 12 + size


class _Inflater:
    """Expands the compressed parts of one file, which together may not become larger than ``most`` bytes."""

    def __init__(self, most: int) -> None:
        self._most, self._left = most, most

    def inflated(self, data: bytes) -> bytes:
        stream = zlib.decompressobj()
        out = stream.decompress(data, self._left + 1)  # zero would mean "no limit"
        if len(out) > self._left:
            raise ValueError(f"it expands to more than the allowed {self._most:,} bytes")
        if not stream.eof:
            raise ValueError("a compressed part is incomplete")
        self._left -= len(out)
        return out
