"""Checks a shared library's file before the system's loader does, which ends the process on a truncated file.

Pure: bytes in, a complaint or None out. A file that passes may still be damaged inside; only loading it in a separate
process protects from that.
"""

from __future__ import annotations

import platform
import struct

MAGIC = b"\x7fELF"
CLASS_64, LITTLE_ENDIAN = 2, 1
SHARED_OBJECT = 3
LOADED = 1
MACHINES = {"x86_64": 62, "aarch64": 183}
"""ELF's machine number by ``platform.machine()``. On other machines only the ELF header's magic is checked."""

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
PROGRAM = struct.Struct("<IIQQQQQQ")


def complaint_about(data: bytes | bytearray) -> str | None:
    """Why these bytes cannot be a complete shared library for this machine; None if they can."""
    if len(data) < HEADER.size:
        return f"it has only {len(data)} bytes"
    ident, kind, machine, *_ = HEADER.unpack_from(data)
    if not ident.startswith(MAGIC):
        return "it is not a shared library (no ELF header)"
    if platform.machine() not in MACHINES:
        return None
    if (ident[4], ident[5], machine) != (CLASS_64, LITTLE_ENDIAN, MACHINES[platform.machine()]):
        return f"it is not built for this machine, {platform.machine()}"
    if kind != SHARED_OBJECT:
        return "it is not a shared library"
    end = _end(data)
    return None if end <= len(data) else f"it is cut off or damaged: {len(data)} of {end} bytes are there"


def _end(data: bytes | bytearray) -> int:
    """The least size of a file that contains everything its tables refer to."""
    _, _, _, _, _, programs_at, sections_at, _, _, program_size, programs, section_size, sections, _ = (
        HEADER.unpack_from(data)
    )
    ends = [programs_at + programs * max(program_size, PROGRAM.size), sections_at + sections * section_size]
    if ends[0] <= len(data):
        for index in range(programs):
            what, _, offset, _, _, in_file, _, _ = PROGRAM.unpack_from(data, programs_at + index * program_size)
            if what == LOADED:
                ends.append(offset + in_file)
    return int(max(ends))
