"""Looks at a shared library's file before the system's loader does: that one ends the process on a cut file.

Pure: bytes in, a complaint or nothing out. A file that passes may still be broken inside; only a process of its own
protects from that.
"""

from __future__ import annotations

import struct
import sys

MAGIC = b"\x7fELF"
CLASS_64, LITTLE_ENDIAN = 2, 1
SHARED_OBJECT = 3
LOADED = 1
MACHINES = {62: "x86-64", 183: "aarch64", 3: "x86", 40: "arm", 243: "riscv"}

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
PROGRAM = struct.Struct("<IIQQQQQQ")


def complaint_about(data: bytes | bytearray) -> str | None:
    """Why these bytes cannot be a whole shared library of this machine; None if they may be one."""
    if len(data) < HEADER.size:
        return f"it has only {len(data)} bytes"
    ident, kind, machine, _, _, programs_at, sections_at, *rest = HEADER.unpack_from(data)
    _, _, program_size, programs, section_size, sections, _ = rest
    if not ident.startswith(MAGIC):
        return "it is not a shared library (no ELF header)"
    if ident[4] != CLASS_64 or ident[5] != LITTLE_ENDIAN or machine != _machine_of_python():
        return f"it is made for another machine ({MACHINES.get(machine, machine)})"
    if kind != SHARED_OBJECT:
        return "it is not a shared library"
    if programs_at + programs * program_size > len(data) or program_size != PROGRAM.size:
        return "it is cut off or damaged"
    ends = [sections_at + sections * section_size]
    for index in range(programs):
        what, _, offset, _, _, in_file, _, _ = PROGRAM.unpack_from(data, programs_at + index * program_size)
        if what == LOADED:
            ends.append(offset + in_file)
    return f"it is cut off: {len(data)} of {max(ends)} bytes" if max(ends) > len(data) else None


def _machine_of_python() -> int:
    """The ELF number of the machine this interpreter is made for, from its own file."""
    with open(sys.executable, "rb") as file:
        return int(HEADER.unpack(file.read(HEADER.size))[2])
