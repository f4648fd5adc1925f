"""Checks the header of NES ROMs for truncated files, which emulators would run anyway. Pure."""

from __future__ import annotations

from pathlib import Path

from ninelives.errors import EmulatorError

_MAGIC, _HEADER, _TRAINER, _PRG, _CHR = b"NES\x1a", 16, 512, 16 << 10, 8 << 10
_EXPONENT = 15
"""In the NES 2.0 format: the size is written in exponent form, which only homebrew of odd sizes uses."""


def check(rom: bytes, name: str | Path) -> None:
    """Reject a file that is not a complete NES ROM.

    Raises:
        EmulatorError: it has no header, or is shorter than its header says.
    """
    if len(rom) < _HEADER or not rom.startswith(_MAGIC):
        raise EmulatorError(f"{name} is not an NES ROM: it does not start with an iNES header")
    program, graphics = rom[4], rom[5]
    if rom[7] & 0x0C == 0x08:  # NES 2.0 has four more bits for each size
        more_program, more_graphics = rom[9] & 0x0F, rom[9] >> 4
        if _EXPONENT in (more_program, more_graphics):
            return
        program, graphics = program | more_program << 8, graphics | more_graphics << 8
    size = _HEADER + _TRAINER * (rom[6] >> 2 & 1) + _PRG * program + _CHR * graphics
    if not program or len(rom) < size:
        raise EmulatorError(f"{name} is truncated: its header says {size} bytes, but it has {len(rom)}")
