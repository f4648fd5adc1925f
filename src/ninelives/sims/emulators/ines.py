"""The header of NES ROMs: whether the file is whole. Emulators play whatever is left of a torn one. Pure."""

from __future__ import annotations

from pathlib import Path

from ninelives.errors import EmulatorError

_MAGIC, _HEADER, _TRAINER, _PRG, _CHR = b"NES\x1a", 16, 512, 16 << 10, 8 << 10
_EXPONENT = 15
"""In the second format: the size is written in another way, which only homebrew of odd sizes uses."""


def check(rom: bytes, name: str | Path) -> None:
    """Refuse what is no whole NES ROM.

    Raises:
        EmulatorError: it has no header, or is shorter than its header tells.
    """
    if len(rom) < _HEADER or not rom.startswith(_MAGIC):
        raise EmulatorError(f"{name} is no NES ROM: it does not begin with the header of one")
    program, pictures = rom[4], rom[5]
    if rom[7] & 0x0C == 0x08:  # the second format has four more bits of each
        more_program, more_pictures = rom[9] & 0x0F, rom[9] >> 4
        if _EXPONENT in (more_program, more_pictures):
            return
        program, pictures = program | more_program << 8, pictures | more_pictures << 8
    size = _HEADER + _TRAINER * (rom[6] >> 2 & 1) + _PRG * program + _CHR * pictures
    if not program or len(rom) < size:
        raise EmulatorError(f"{name} is cut short: its header tells of {size} bytes, and it has {len(rom)}")
