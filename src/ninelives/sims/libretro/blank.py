"""Minimal ROMs to find out what a core can do: each is an endless loop with save memory. Pure."""

from __future__ import annotations

import struct

GBA_LOOP = 0xEAFFFFFE
"""``b .``"""


def blank_rom(system: str) -> bytes | None:
    """A minimal ROM for this system; None if there is none."""
    make = {"gba": _gba, "nes": _nes, "gb": _gb, "gbc": _gb}.get(system)
    return make() if make else None


def _gba() -> bytes:
    rom = bytearray(0x200)
    rom[:4] = struct.pack("<I", GBA_LOOP)
    rom[0xA0:0xB2] = b"BLANK".ljust(12, b"\0") + b"BLNK01"
    rom[0xB2] = 0x96
    rom[0xBD] = -(sum(rom[0xA0:0xBD]) + 0x19) & 0xFF
    return bytes(rom)


def _nes() -> bytes:
    has_battery = 0x02
    program = b"\x4c\x00\xc0".ljust(0x3FFA, b"\0") + struct.pack("<3H", 0xC000, 0xC000, 0xC000)
    return b"NES\x1a" + bytes((1, 1, has_battery)) + bytes(9) + program + bytes(0x2000)


def _gb() -> bytes:
    mapper_with_battery, eight_kilobytes = 0x03, 0x02
    rom = bytearray(0x8000)
    rom[0x100:0x104] = b"\x00\xc3\x50\x01"
    rom[0x150:0x152] = b"\x18\xfe"
    rom[0x147], rom[0x149] = mapper_with_battery, eight_kilobytes
    rom[0x14D] = sum(-byte - 1 for byte in rom[0x134:0x14D]) & 0xFF
    return bytes(rom)
