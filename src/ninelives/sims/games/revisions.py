"""Checks which revision of a game the user's ROM is. Contains public checksums only, nothing of a game.

A memory map fits one build of a game. Another ROM is rejected, or accepted with a warning; the message says what was
expected and what was given.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ninelives.errors import ConfigError, NinelivesWarning
from ninelives.sims.emulators.systems import system_by_header
from ninelives.sims.emulators.user_paths import user_path

INES_HEADER_BYTES = 16
_GBA_CODE, _GBA_REVISION = slice(0xAC, 0xB0), 0xBC
_GBA_REGIONS = {"E": "USA", "J": "Japan", "P": "Europe", "D": "Germany", "F": "France", "I": "Italy", "S": "Spain"}
"""Regions by the last letter of a game code."""


@dataclass(frozen=True)
class Edition:
    """The known ROMs of a game.

    Attributes:
        title: the game's title.
        system: ``gba`` or ``nes``.
        expected: name of the revision that the memory map fits.
        sha1: its SHA-1 (of an NES ROM without its 16-byte header), in hexadecimal.
        others: names of other revisions by their SHA-1.
        id: the game's Gymnasium id.
    """

    title: str
    system: str
    expected: str
    sha1: str
    others: Mapping[str, str]
    id: str


def checked_rom(rom: str | Path | None, edition: Edition, *, any_revision: bool) -> Path:
    """The path of the user's ROM. Another revision is rejected; with ``any_revision`` it is only a warning.

    Raises:
        ConfigError: no path, no such file, not a ROM of that system, or another revision; the message says what was
            expected and what was given.
    """
    if rom is None:
        raise ConfigError(
            f"{edition.id} needs your own ROM of {edition.title} ({edition.expected}), which is not included: "
            "give rom='PATH', or --rom PATH on the command line"
        )
    path = user_path(rom)
    words = _another_revision(_read(path, edition), edition)
    if words and not any_revision:
        raise ConfigError(f"{words}; its memory layout may differ. To use it anyway: any_revision=True")
    if words:
        warnings.warn(
            f"{words}; rewards are correct only if its memory layout is the same", NinelivesWarning, stacklevel=3
        )
    return path


def _read(rom: Path, edition: Edition) -> bytes:
    try:
        data = rom.read_bytes()
    except OSError as error:
        raise ConfigError(f"rom={str(rom)!r} cannot be read: {error.strerror or error}") from None
    if system_by_header(data) != edition.system:
        raise ConfigError(
            f"rom={str(rom)!r} is not a {edition.system.upper()} ROM; expected: {edition.title} ({edition.expected})"
        )
    return data


def _another_revision(data: bytes, edition: Edition) -> str:
    """What was expected and what was given; empty if they are the same."""
    sha1 = fingerprint(data, edition.system)
    if sha1 == edition.sha1:
        return ""
    return (
        f"{edition.id} is made for {edition.title}, {edition.expected} (SHA-1 {edition.sha1}); given: "
        f"{edition.others.get(sha1) or _described(data, edition.system)} (SHA-1 {sha1})"
    )


def fingerprint(data: bytes, system: str) -> str:
    """The SHA-1 as in public lists: of an NES ROM without its header, which tools write differently."""
    return hashlib.sha1(data[INES_HEADER_BYTES:] if system == "nes" else data, usedforsecurity=False).hexdigest()


def _described(data: bytes, system: str) -> str:
    if system == "nes":
        return f"an unknown ROM of {len(data):,} bytes"
    code = data[_GBA_CODE].decode("ascii", "replace")
    region = _GBA_REGIONS.get(code[-1:], "region unknown")
    return f"a ROM with game code {code!r} ({region}), revision {data[_GBA_REVISION]}, {len(data):,} bytes"
