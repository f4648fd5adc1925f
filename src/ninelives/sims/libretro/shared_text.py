"""Lets private copies of one core share the pages of their code: only writable data has to be private.

Copies are separate files, so the system keeps their identical code in separate memory: four games in a process would
need four times the space in the processor's caches. Here the code of later copies is mapped from the first one's file.
Must never change what a process reads: a part is only replaced by one that is equal in every byte.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

MAPS = Path("/proc/self/maps")
MAP_FIXED = 0x10
FAILED = ctypes.c_void_p(-1).value
PROTECTIONS = {"r--p": mmap.PROT_READ, "r-xp": mmap.PROT_READ | mmap.PROT_EXEC}
"""Protections of read-only parts, as written in the process's memory map."""

_firsts: dict[Path, FirstCopy] = {}
"""For each core its first copy in this process, kept while any copy is loaded."""

_firsts_lock = threading.RLock()
"""Reentrant: creating a machine may trigger garbage collection, which unloads another one in the same thread."""


@dataclass
class FirstCopy:
    """A copy whose file is kept open for later ones; ``users`` are the handles of all loaded copies."""

    descriptor: int
    users: set[int]


class MappedPart(NamedTuple):
    """A read-only mapping of a file in this process."""

    address: int
    size: int
    protection: int
    offset: int


def share(copy: str, core: Path, handle: int) -> None:
    """Replace the code of ``copy``, a file of ``core`` that was just loaded and still exists, by the first copy's."""
    if sys.platform != "linux":
        return
    with _firsts_lock:
        first = _firsts.get(core)
        if first is None:
            _firsts[core] = FirstCopy(os.open(copy, os.O_RDONLY), {handle})
            return
        first.users.add(handle)
    for part in list(_parts(copy)):
        _replace(part, first.descriptor)


def forget(handle: int) -> None:
    """Record that a copy is unloaded; with the last copy of a core its file is closed."""
    with _firsts_lock:
        for core, first in list(_firsts.items()):
            first.users.discard(handle)
            if not first.users:
                del _firsts[core]
                os.close(first.descriptor)


def _reset_in_child() -> None:
    """In a forked process: start without descriptors, because it may close inherited ones and reuse their numbers."""
    for first in _firsts.values():
        os.close(first.descriptor)
    _firsts.clear()
    _firsts_lock.release()


os.register_at_fork(before=_firsts_lock.acquire, after_in_parent=_firsts_lock.release, after_in_child=_reset_in_child)


def _parts(copy: str) -> Iterator[MappedPart]:
    """The read-only mappings of a file, from lines of address range, protection, offset, device, inode and name."""
    for line in MAPS.read_text().splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[5] == copy and fields[1] in PROTECTIONS:
            start, end = (int(address, 16) for address in fields[0].split("-"))
            yield MappedPart(start, end - start, PROTECTIONS[fields[1]], int(fields[2], 16))


def _replace(part: MappedPart, descriptor: int) -> None:
    """Replace a part if its bytes are equal; parts with addresses filled in by the loader differ, and stay."""
    if os.pread(descriptor, part.size, part.offset) != ctypes.string_at(part.address, part.size):
        return
    place = _mmap()(part.address, part.size, part.protection, mmap.MAP_PRIVATE | MAP_FIXED, descriptor, part.offset)
    if place == FAILED:
        raise OSError(ctypes.get_errno(), "a core's code could not be shared")


def _mmap() -> Callable[..., int]:
    """The C function: Python's own ``mmap`` takes no address."""
    function = ctypes.CDLL(None, use_errno=True).mmap
    function.restype = ctypes.c_void_p
    size, number = ctypes.c_size_t, ctypes.c_int
    function.argtypes = (ctypes.c_void_p, size, number, number, number, ctypes.c_ssize_t)
    return function
