"""Input movies: the pad input of every step, and a hash of the machine after it.

A movie consists of a start (a state, or power-on), a pad for every step and a hash of picture and memory after every
step. Anyone with the ROM can replay it and find the first step that differs. Owns the file format and the hash; never
opens an emulator.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ninelives.errors import CheckpointError, ConfigError, UsageError
from ninelives.sims.emulators.machine import BUTTONS, Identity, Machine
from ninelives.sims.emulators.state_files import write_file

MAGIC = b"RKMOVIE\n"
FORMAT = 1
HASH_BYTES = 8
LONGEST_STEPS = 1 << 26
MOST_FRAME_SKIP = 1000
"""Limit of frames per step, as for environments: more is a mistake, or a file made to hang a machine."""

POWER_ON = "power-on"

_HEAD = struct.Struct("<8sHI")
"""Magic, format number, bytes of the header that follows."""
_RUN = struct.Struct("<HI")
"""A pad, and the number of steps for which it is held."""
_CHECKSUM_BYTES = 32
_MOST_BYTES = 1 << 32
_MOST_HASHED_BYTES = 1 << 20
"""Larger regions are ROMs, which do not change."""
_NOT_HASHED = ("bios", "io", "cartridge")
"""Constant, or visible in work memory anyway; some cores show stale cartridge memory after a load."""


@dataclass(frozen=True)
class Movie:
    """One recorded game.

    Attributes:
        identity: ROM and emulator it was recorded with.
        frame_skip: frames per step.
        game: id or file name of the game, for display.
        start: a snapshot's bytes; empty if the movie starts at power-on.
        pads: the buttons held, one bit mask per step.
        hashes: the hashes of all steps, ``HASH_BYTES`` each, concatenated.
        switched_on: whether ``start`` is the state after power-on, which any emulator can reach without loading it.
    """

    identity: Identity
    frame_skip: int
    game: str
    start: bytes
    pads: tuple[int, ...]
    hashes: bytes
    switched_on: bool = False

    @property
    def begins_at_power_on(self) -> bool:
        """Whether the start can be reached without loading it."""
        return self.switched_on or not self.start

    @property
    def steps(self) -> int:
        """Number of steps."""
        return len(self.pads)

    def hash_of(self, step: int) -> bytes:
        """The machine's hash after this step, counted from 0."""
        return self.hashes[step * HASH_BYTES : (step + 1) * HASH_BYTES]

    def to_bytes(self) -> bytes:
        """The content of the file."""
        inputs = b"".join(_RUN.pack(pad, run) for pad, run in _runs(self.pads))
        sizes = {"start": len(self.start), "inputs": len(inputs), "hashes": len(self.hashes)}
        header = json.dumps(
            {
                "game": self.game,
                **dataclasses.asdict(self.identity),
                "frame_skip": self.frame_skip,
                "begins": POWER_ON if self.begins_at_power_on else "state",
                "steps": self.steps,
                "sizes": sizes,
            }
        ).encode()
        body = _HEAD.pack(MAGIC, FORMAT, len(header)) + header + self.start + inputs + self.hashes
        return body + hashlib.sha256(body).digest()

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "movie") -> Movie:
        """Read the content of a file.

        Raises:
            CheckpointError: not a movie, cut short, damaged, or from a newer Ninelives; the message contains ``name``.
        """
        header, at = _header(data, name)
        start, inputs, hashes = _parts(data, at, header["sizes"])
        runs = list(_RUN.iter_unpack(inputs)) if len(inputs) % _RUN.size == 0 else []
        known_pads = all(pad < 1 << len(BUTTONS) for pad, _ in runs)
        steps = sum(run for _, run in runs)
        if not known_pads or steps != header["steps"] or len(hashes) != steps * HASH_BYTES:
            raise CheckpointError(f"{name} is not a valid movie: its parts do not make {header['steps']} steps")
        pads = tuple(itertools.chain.from_iterable([pad] * run for pad, run in runs))
        identity = Identity(**{field.name: str(header[field.name]) for field in dataclasses.fields(Identity)})
        switched_on = bool(start) and header.get("begins") == POWER_ON  # older movies with a start say "state"
        return cls(identity, header["frame_skip"], str(header["game"]), start, pads, hashes, switched_on)

    def write(self, path: Path) -> None:
        """Write the file atomically.

        Raises:
            ConfigError: it exists already, or it cannot be written.
        """
        write_file(path, self.to_bytes(), overwrite=False)

    @classmethod
    def read(cls, path: Path) -> Movie:
        """Read a file.

        Raises:
            ConfigError: it cannot be read.
            CheckpointError: it is not a movie, cut short, damaged or from a newer version.
        """
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from None
        return cls.from_bytes(data, str(path))


class Hasher:
    """Hashes a machine's picture and work memory; the memory views are created once."""

    def __init__(self, emulator: Machine) -> None:
        memory = emulator.memory
        regions = [region for region in memory.regions() if region[2] <= _MOST_HASHED_BYTES]
        self._views = [memory.view(first, size) for name, first, size in regions if name not in _NOT_HASHED]
        self._emulator = emulator

    def now(self) -> bytes:
        """The hash of the machine's current state."""
        picture = self._emulator.picture()
        digest = hashlib.blake2b(f"{picture.pixels.shape} {picture.layout}".encode(), digest_size=HASH_BYTES)
        digest.update(picture.pixels.tobytes())
        for view in self._views:
            digest.update(view.data)
        return digest.digest()


class MovieRecorder:
    """Records the pad of every step and the machine's hash after it."""

    def __init__(
        self, identity: Identity, frame_skip: int, game: str, start: bytes, *, switched_on: bool = False
    ) -> None:
        if not 1 <= frame_skip <= MOST_FRAME_SKIP:
            raise ConfigError(f"frame_skip={frame_skip!r} must be a whole number from 1 to {MOST_FRAME_SKIP}")
        self._identity, self._frame_skip, self._game, self._start = identity, frame_skip, game, start
        self._switched_on = switched_on
        self._pads: list[int] = []
        self._hashes = bytearray()

    def note(self, pad: int, hashed: bytes) -> None:
        """Record one step with this pad, after which the machine had this hash."""
        if len(self._pads) >= LONGEST_STEPS:
            raise UsageError(f"a movie has at most {LONGEST_STEPS:,} steps; start another one")
        self._pads.append(pad)
        self._hashes += hashed

    def movie(self) -> Movie:
        """The movie recorded so far."""
        steps = min(len(self._pads), len(self._hashes) // HASH_BYTES)  # a signal may have interrupted ``note``
        pads, hashes = tuple(self._pads[:steps]), bytes(self._hashes[: steps * HASH_BYTES])
        return Movie(self._identity, self._frame_skip, self._game, self._start, pads, hashes, self._switched_on)


def check_place(path: Path, option: str) -> None:
    """Reject a file name that cannot be written, before there is anything to lose.

    Raises:
        ConfigError: its directory does not exist, is not a directory, or is not writable.
    """
    directory = path.parent
    if not directory.is_dir():
        raise ConfigError(f"{option} {path}: there is no directory {directory}; make it first, or give another name")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise ConfigError(f"{option} {path}: you may not write to the directory {directory}; give another name")
    if path.is_dir():
        raise ConfigError(f"{option} {path}: is a directory; give the name of a file in it")


def replayed(movie: Movie, emulator: Machine) -> Iterator[bool]:
    """Step a machine from the movie's start; yields for each step whether it equals the recording.

    Raises:
        ConfigError: the machine has another number of frames per step.
    """
    if emulator.frame_skip != movie.frame_skip:
        raise ConfigError(f"the movie has {movie.frame_skip} frames per step, the emulator {emulator.frame_skip}")
    hasher = Hasher(emulator)
    for step, pad in enumerate(movie.pads):
        emulator.step(pad)
        yield hasher.now() == movie.hash_of(step)


def _runs(pads: Iterable[int]) -> Iterator[tuple[int, int]]:
    for pad, group in itertools.groupby(pads):
        yield pad, sum(1 for _ in group)


def _header(data: bytes, name: str) -> tuple[dict[str, Any], int]:
    """The header, checked against the rest of the file, and the offset of the rest."""
    if len(data) < _HEAD.size or not data.startswith(MAGIC):
        raise CheckpointError(f"{name} is not a Ninelives movie; record one with `ninelives record`")
    _, version, size = _HEAD.unpack_from(data)
    if version != FORMAT:
        advice = "upgrade Ninelives" if version > FORMAT else "record it again"
        raise CheckpointError(f"{name} has movie format {version}, this Ninelives reads {FORMAT}; {advice}")
    at = _HEAD.size + size
    if len(data) < at + _CHECKSUM_BYTES:
        raise CheckpointError(f"{name} is cut short: it ends within its header, at {len(data):,} bytes")
    whole = hashlib.sha256(data[:-_CHECKSUM_BYTES]).digest() == data[-_CHECKSUM_BYTES:]
    header = _parsed(data[_HEAD.size : at])
    if not whole:
        expected = at + sum(header["sizes"].values()) + _CHECKSUM_BYTES if header else 0
        if header and len(data) < expected:
            raise CheckpointError(f"{name} is cut short: {len(data):,} of {expected:,} bytes; copy it again")
        raise CheckpointError(f"{name} is damaged: its checksum is wrong; copy it again")
    if not header:
        raise CheckpointError(f"{name} is not a valid movie: its header cannot be read")
    return header, at


def _parts(data: bytes, at: int, sizes: dict[str, int]) -> tuple[bytes, bytes, bytes]:
    inputs = at + sizes["start"]
    hashes = inputs + sizes["inputs"]
    return data[at:inputs], data[inputs:hashes], data[hashes:-_CHECKSUM_BYTES]


def _parsed(text: bytes) -> dict[str, Any]:
    """The parsed header; empty if it is not valid."""
    try:
        header = json.loads(text)
        sizes = [header["sizes"][key] for key in ("start", "inputs", "hashes")]
        counts = (*sizes, header["steps"], header["frame_skip"])
        needed = {field.name for field in dataclasses.fields(Identity)} | {"game"}
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}
    sound = all(type(count) is int and 0 <= count < _MOST_BYTES for count in counts) and needed <= set(header)
    bounded = sound and 1 <= header["frame_skip"] <= MOST_FRAME_SKIP and header["steps"] <= LONGEST_STEPS
    return header if bounded else {}
