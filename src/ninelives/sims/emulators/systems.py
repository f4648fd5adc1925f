"""The supported systems: how to recognise their ROMs, their buttons, and the cores that run them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ninelives.errors import EmulatorError
from ninelives.sims.emulators.machine import BUTTONS

DIRECTIONS = ("up", "down", "left", "right")
TWO_BUTTONS = ("b", "select", "start", *DIRECTIONS, "a")


@dataclass(frozen=True)
class System:
    """A game console.

    Attributes:
        name: its name in identities and settings.
        title: its full name.
        suffixes: file suffixes of its ROMs.
        cores: names of the cores that run it, best first.
        buttons: the buttons of its pad, in libretro's order.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    cores: tuple[str, ...]
    buttons: tuple[str, ...]


SYSTEMS = {
    system.name: system
    for system in (
        System("gba", "Game Boy Advance", (".gba", ".agb"), ("mgba",), (*TWO_BUTTONS, "l", "r")),
        System("gb", "Game Boy", (".gb",), ("gambatte", "mgba"), TWO_BUTTONS),
        System("gbc", "Game Boy Color", (".gbc",), ("gambatte", "mgba"), TWO_BUTTONS),
        System("nes", "Nintendo Entertainment System", (".nes",), ("fceumm", "nestopia", "cynes"), TWO_BUTTONS),
        System("snes", "Super Nintendo", (".sfc", ".smc"), ("snes9x",), BUTTONS),
        System("genesis", "Sega Genesis", (".md", ".gen", ".smd"), ("genesis_plus_gx", "picodrive"), BUTTONS),
        System("pce", "PC Engine", (".pce",), ("mednafen_pce_fast",), BUTTONS),
        System("atari2600", "Atari 2600", (".a26",), ("stella",), BUTTONS),
    )
}

GB_BANK_BYTES = 0x4000
GB_CLOCKS = (0x0F, 0x10, 0xFD, 0xFE)
"""Game Boy cartridge types with a clock, by the type number in the header."""

ARCHIVES = {b"PK\x03\x04": "zip", b"7z\xbc\xaf\x27\x1c": "7z", b"\x1f\x8b": "gzip", b"Rar!": "rar"}


def system_of(rom: bytes, file_name: str) -> str:
    """The system a ROM is made for, by its header or else by its file suffix.

    Raises:
        EmulatorError: neither is known.
    """
    if not rom:
        raise EmulatorError(f"{file_name} is empty; give a complete ROM file")
    if archive := next((kind for magic, kind in ARCHIVES.items() if rom.startswith(magic)), None):
        raise EmulatorError(f"{file_name} is a {archive} archive; unpack it and give the ROM inside")
    suffix = Path(file_name).suffix.lower()
    by_suffix = next((system.name for system in SYSTEMS.values() if suffix in system.suffixes), None)
    found = system_by_header(rom) or by_suffix
    if found is None:
        known = ", ".join(suffix for system in SYSTEMS.values() for suffix in system.suffixes)
        raise EmulatorError(
            f"{file_name}: neither its header nor its suffix shows which system it is made for (known: {known}). "
            f"Set system= to {' or '.join(map(repr, SYSTEMS))}"
        )
    return found


def check_system(system: str) -> str:
    """Return the name if it is known; EmulatorError otherwise."""
    if system not in SYSTEMS:
        raise EmulatorError(f"system={system!r} is not known; choose one of {', '.join(SYSTEMS)}")
    return system


def buttons_of(system: str) -> tuple[str, ...]:
    """The buttons of this system's pad."""
    return SYSTEMS[system].buttons if system in SYSTEMS else BUTTONS


def system_by_header(rom: bytes) -> str | None:
    """The system that a ROM's header identifies; None if it has no known header."""
    if rom.startswith(b"NES\x1a"):
        return "nes"
    if len(rom) >= 0xC0 and rom[0xB2] == 0x96 and rom[0x03] == 0xEA:
        return "gba"
    if rom[0x100:0x104] == b"SEGA":
        return "genesis"
    if len(rom) >= 2 * GB_BANK_BYTES and len(rom) % GB_BANK_BYTES == 0 and _gb_checksum(rom) == rom[0x14D]:
        return "gbc" if rom[0x143] & 0x80 else "gb"
    return None


def has_clock(rom: bytes, system: str) -> bool:
    """Whether a Game Boy cartridge has a clock; a GBA header does not contain this."""
    return system in ("gb", "gbc") and len(rom) > 0x147 and rom[0x147] in GB_CLOCKS


def _gb_checksum(rom: bytes) -> int:
    return sum(-byte - 1 for byte in rom[0x134:0x14D]) & 0xFF
