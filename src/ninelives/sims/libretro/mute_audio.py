"""Removes audio mixing from a core's private copy: it is not used, and takes 20 % of the time of a frame.

Pure: a file's bytes in, patches out. Only functions that write to a sound buffer and nowhere else are stubbed: neither
the game's memory nor the core's state depends on them. A file without these functions, or with invalid tables, is not
changed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ninelives.sims.libretro import elf

MIXERS = (b"blip_add_delta",)
"""In mGBA: adds one step of a wave to the sound buffer, also while the sound is off."""

RETURN = {elf.MACHINES["x86_64"]: b"\xc3", elf.MACHINES["aarch64"]: b"\xc0\x03\x5f\xd6"}
"""The return instruction by ELF's machine number."""

LONGEST_RETURN = max(map(len, RETURN.values()))

SYMBOL_TABLES = (2, 11)
FUNCTION = 2
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = np.dtype(
    {
        "names": ["name", "info", "other", "section", "value", "size"],
        "formats": ["<u4", "u1", "u1", "<u2", "<u8", "<u8"],
    }
)


class Section(NamedTuple):
    """One entry of a file's section table."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry_size: int


def stubs(data: bytes) -> dict[int, bytes]:
    """Patches by file offset that make the functions in ``MIXERS`` return immediately."""
    try:
        machine, sections = _sections(data)
        return {place: RETURN[machine] for mixer in MIXERS for place in _places(data, sections, mixer)}
    except (struct.error, ValueError, IndexError, KeyError, OverflowError):
        return {}


def _sections(data: bytes) -> tuple[int, list[Section]]:
    header = elf.HEADER.unpack_from(data)
    machine, at, size, count = header[2], header[6], header[11], header[12]
    return machine, [Section(*SECTION.unpack_from(data, at + index * size)) for index in range(count)]


def _places(data: bytes, sections: list[Section], name: bytes) -> Iterator[int]:
    """File offsets of a function's code; stripped files only have exported names."""
    for table in sections:
        if table.kind not in SYMBOL_TABLES:
            continue
        texts = sections[table.link]
        at = data.find(b"\0" + name + b"\0", texts.offset, texts.offset + texts.size) + 1 - texts.offset
        symbols = np.frombuffer(data, SYMBOL, table.size // SYMBOL.itemsize, table.offset)
        chosen = symbols[(symbols["name"] == at) & (symbols["info"] & 15 == FUNCTION) & (symbols["section"] > 0)]
        for symbol in chosen if at > 0 else ():
            section = sections[int(symbol["section"])]
            place = section.offset + int(symbol["value"]) - section.address
            if symbol["size"] >= LONGEST_RETURN and 0 <= place <= len(data) - LONGEST_RETURN:
                yield place
