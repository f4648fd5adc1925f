"""A saved state of an emulated game as bytes: its identity, the machine, and the state of the environment around it.

::

    magic, format, flags, bytes of header and body, SHA-256 of all the rest | header (JSON) | body (blobs, end to end)

The body of a file is compressed. In memory, where a snapshot must be cheap, only its empty blocks are removed.

It contains no code, because a state may come from an untrusted source. Everything is checked before an emulator sees a
byte, because emulators accept almost anything: a state that is damaged, cut short, from a newer version, or from
another ROM or core is rejected, each with its own message. The checksum detects damage; it proves no origin.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ninelives.errors import CheckpointError
from ninelives.sims.emulators.machine import BUTTONS, Identity, MachineState
from ninelives.sims.emulators.packing import pack, split, unpack
from ninelives.sims.emulators.sparse import expand, squeeze

MAGIC = b"\x89ROOKST\n"
FORMAT = 1

_PREFIX = struct.Struct("<8sHHIQ")
_DIGEST_BYTES = 32
_BEGIN = _PREFIX.size + _DIGEST_BYTES
_COMPRESSED, _HOLES = 1, 2
_MOST_BODY = 1 << 30
_QUICK = 1
"""zlib's level for files: most of a state is zeros."""

_PIXEL_BYTES = {"rgb565": 2, "rgb555": 2, "bgrx8888": 4, "rgb888": 3}
_LARGEST_SIDE = 4096
_MOST_PHASE = 1 << 16


@dataclass(frozen=True)
class Snapshot:
    """A saved state.

    Attributes:
        identity: the game and emulator it belongs to.
        machine: the emulator's part.
        wrapper: the environment's part: numbers, strings, bytes, lists, dicts and arrays; empty if there is none.
        rng: state of the environment's random generator, of the same types.
    """

    identity: Identity
    machine: MachineState
    wrapper: Mapping[str, Any] = field(default_factory=dict)
    rng: Mapping[str, Any] = field(default_factory=dict)

    def to_bytes(self, *, compress: bool = False) -> bytes:
        """Serialise the snapshot; ``compress`` for files takes a few milliseconds and saves 80 % or more."""
        blobs: list[bytes] = []
        machine = {f.name: getattr(self.machine, f.name) for f in dataclasses.fields(MachineState)}
        parts = {
            "identity": vars(self.identity),
            "machine": pack(machine, blobs, "machine"),
            "wrapper": pack(self.wrapper, blobs, "wrapper"),
            "rng": pack(self.rng, blobs, "rng"),
        }
        header = json.dumps({**parts, "blobs": [len(blob) for blob in blobs]}, separators=(",", ":")).encode()
        body = zlib.compress(b"".join(blobs), _QUICK) if compress else squeeze(*blobs)
        prefix = _PREFIX.pack(MAGIC, FORMAT, _COMPRESSED if compress else _HOLES, len(header), len(body))
        return b"".join((prefix, _digest(prefix, header, body), header, body))

    @classmethod
    def from_bytes(cls, data: bytes, expect: Identity | None = None) -> Snapshot:
        """Read and check a snapshot; ``expect`` is the game and emulator it must belong to.

        Raises:
            CheckpointError: not a snapshot, cut short, damaged, from a newer version, or from another ROM or core.
        """
        header, body = _opened(data)
        try:
            snapshot = _read(json.loads(header), body)
        except CheckpointError:
            raise
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
            raise CheckpointError(f"the snapshot's content is invalid: {error!r}; {_AGAIN}") from error
        if expect is not None:
            check_identity(snapshot.identity, expect)
        return snapshot


_AGAIN = "save it again, or use another copy"


def check_identity(theirs: Identity, ours: Identity) -> None:
    """Reject a state of another game or emulator.

    Raises:
        CheckpointError: with what differs and what to do.
    """
    if theirs.rom_sha256 != ours.rom_sha256:
        raise CheckpointError(
            f"the snapshot belongs to another ROM: SHA-256 {theirs.rom_sha256[:16]}..., this one has "
            f"{ours.rom_sha256[:16]}...; give the ROM it was saved with"
        )
    if (theirs.backend, theirs.core, theirs.system) != (ours.backend, ours.core, ours.system):
        raise CheckpointError(
            f"the snapshot was saved by {_emulator(theirs)}, this is {_emulator(ours)}: emulators cannot read each "
            "other's states; choose the same one with core=..., or save it again"
        )
    if theirs.version != ours.version:
        raise CheckpointError(
            f"the snapshot was saved by {theirs.core} {theirs.version}, this is {theirs.core} {ours.version}: a state "
            "is exact only in the version that saved it; use that version, or save it again"
        )


def _emulator(identity: Identity) -> str:
    return f"{identity.core} {identity.version} for {identity.system} ({identity.backend})"


# ---- the envelope ---------------------------------------------------------------------------------------------------


def _digest(prefix: bytes, *parts: bytes | memoryview) -> bytes:
    digest = hashlib.sha256(prefix)
    for part in parts:
        digest.update(part)
    return digest.digest()


def _opened(data: bytes) -> tuple[bytes, bytes]:
    """Header and body, after checking that the data is complete and undamaged."""
    if data[: len(MAGIC)] != MAGIC[: len(data)] or not data:
        raise CheckpointError(
            "this is not a Ninelives snapshot; to convert an emulator's own state: ninelives state convert FILE"
        )
    if len(data) < _BEGIN:
        raise CheckpointError(f"the snapshot is cut short: {len(data)} bytes; {_AGAIN}")
    prefix, checksum = data[: _PREFIX.size], data[_PREFIX.size : _BEGIN]
    _, number, flags, header_bytes, body_bytes = _PREFIX.unpack(prefix)
    if number > FORMAT:
        raise CheckpointError(
            f"the snapshot has format {number}, this Ninelives reads {FORMAT}: use a newer Ninelives. If this version "
            f"saved it, it is damaged; {_AGAIN}"
        )
    if number < FORMAT:
        raise CheckpointError(f"the snapshot is damaged: there is no format {number}; {_AGAIN}")
    whole = _BEGIN + header_bytes + body_bytes
    if len(data) != whole:
        what = "cut short" if len(data) < whole else "longer than it says"
        raise CheckpointError(f"the snapshot is {what}: {len(data):,} of {whole:,} bytes; {_AGAIN}")
    rest = memoryview(data)
    header, body = rest[_BEGIN : _BEGIN + header_bytes], rest[_BEGIN + header_bytes :]
    if _digest(prefix, header, body) != checksum:
        raise CheckpointError(f"the snapshot is damaged: its checksum does not match; {_AGAIN}")
    return bytes(header), _body(body, flags)


def _body(body: memoryview, flags: int) -> bytes:
    """The body, decompressed or expanded."""
    if flags & ~(_COMPRESSED | _HOLES):
        raise CheckpointError(f"the snapshot has unknown flags ({flags:#x}): use a newer Ninelives")
    if flags & _COMPRESSED:
        return _expanded(body)
    if not flags & _HOLES:
        return bytes(body)
    try:
        return expand(body, _MOST_BODY)
    except ValueError as error:
        raise CheckpointError(f"the snapshot cannot be expanded: {error}; {_AGAIN}") from error


def _expanded(body: memoryview) -> bytes:
    stream = zlib.decompressobj()
    try:
        out = stream.decompress(body, _MOST_BODY)
    except zlib.error as error:
        raise CheckpointError(f"the snapshot cannot be expanded: {error}; {_AGAIN}") from error
    if not stream.eof:
        raise CheckpointError(f"the snapshot expands to more than {_MOST_BODY:,} bytes, or is incomplete; {_AGAIN}")
    return out


# ---- the content ----------------------------------------------------------------------------------------------------


def _read(header: Any, body: bytes) -> Snapshot:
    """Raises ValueError, TypeError or KeyError for content that Ninelives would not write."""
    blobs = split(body, header["blobs"])
    identity = Identity(**header["identity"])
    if not all(isinstance(value, str) for value in dataclasses.astuple(identity)):
        raise ValueError("an identity that is not a string")
    wrapper, rng = unpack(header["wrapper"], blobs), unpack(header["rng"], blobs)
    if not isinstance(wrapper, dict) or not isinstance(rng, dict):
        raise ValueError("no mapping")
    return Snapshot(identity, _machine(unpack(header["machine"], blobs)), wrapper, rng)


def _machine(words: dict[str, Any]) -> MachineState:
    shape = words["shape"]
    if words["layout"] not in _PIXEL_BYTES or not isinstance(shape, list):
        raise ValueError("no picture")
    if not all(type(n) is int and 0 < n <= _LARGEST_SIDE for n in shape) or len(shape) not in (2, 3):
        raise ValueError(f"a picture of shape {shape}")
    if not all(isinstance(words[key], bytes) for key in ("core", "cartridge", "pixels")):
        raise ValueError("no bytes")
    pixel_bytes = _PIXEL_BYTES[words["layout"]] if len(shape) == 2 else 1
    if math.prod(shape) * pixel_bytes != len(words["pixels"]):
        raise ValueError(f"{len(words['pixels'])} bytes of pixels for a picture of shape {shape}")
    if not all(type(words[key]) is int for key in ("phase", "pad")) or not 0 <= words["pad"] < 1 << len(BUTTONS):
        raise ValueError("no phase or pad")
    if not 0 <= words["phase"] < _MOST_PHASE:
        raise ValueError(f"phase {words['phase']}")
    return MachineState(**{**words, "shape": tuple(shape)})
