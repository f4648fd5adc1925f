"""Lets private copies of one core run the same pages of code: only what a core writes to has to be its own.

Copies are files of their own, so the system keeps their equal code in different memory: four games in a process would
take four times the room in the processor's caches, and wait for it. Here the code of later copies is mapped from the
first one's file. Must never change what a process reads: a part is only replaced by one that is equal to the last byte.
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
"""Of the parts that nobody can write to, as the system's table of them shows it."""

_firsts: dict[Path, First] = {}
"""By core: its first copy in this process, kept while any copy is loaded."""

_firsts_lock = threading.RLock()
"""Machines may be made in threads; and making one may be what lets the collector unload another, in the same thread."""


@dataclass
class First:
    """A copy whose file is kept open, for later ones; ``users`` are the handles of all copies that are loaded."""

    descriptor: int
    users: set[int]


class Part(NamedTuple):
    """A piece of a file in this process's memory that cannot be written to."""

    address: int
    size: int
    protection: int
    offset: int


def share(copy: str, core: Path, handle: int) -> None:
    """``copy`` is a file of ``core`` that was just loaded and still exists: let its code be that of the first copy."""
    if sys.platform != "linux":
        return
    with _firsts_lock:
        first = _firsts.get(core)
        if first is None:
            _firsts[core] = First(os.open(copy, os.O_RDONLY), {handle})
            return
        first.users.add(handle)
    for part in list(_parts(copy)):
        _replace(part, first.descriptor)


def forget(handle: int) -> None:
    """A copy was unloaded; with the last one of a core nothing of it is kept."""
    with _firsts_lock:
        for core, first in list(_firsts.items()):
            first.users.discard(handle)
            if not first.users:
                del _firsts[core]
                os.close(first.descriptor)


def _start_anew() -> None:
    """In a process that was just forked: it may close what it inherited, and the numbers would be other files' then."""
    for first in _firsts.values():
        os.close(first.descriptor)
    _firsts.clear()
    _firsts_lock.release()


os.register_at_fork(before=_firsts_lock.acquire, after_in_parent=_firsts_lock.release, after_in_child=_start_anew)


def _parts(copy: str) -> Iterator[Part]:
    """Address range, protection, offset, device, inode and name make a line of the table."""
    for line in MAPS.read_text().splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[5] == copy and fields[1] in PROTECTIONS:
            start, end = (int(address, 16) for address in fields[0].split("-"))
            yield Part(start, end - start, PROTECTIONS[fields[1]], int(fields[2], 16))


def _replace(part: Part, descriptor: int) -> None:
    """Equal bytes take the place of equal bytes; addresses that the loader filled in differ, and stay."""
    if os.pread(descriptor, part.size, part.offset) != ctypes.string_at(part.address, part.size):
        return
    place = _mmap()(part.address, part.size, part.protection, mmap.MAP_PRIVATE | MAP_FIXED, descriptor, part.offset)
    if place == FAILED:
        raise OSError(ctypes.get_errno(), "a core's code could not be shared")


def _mmap() -> Callable[..., int]:
    """Python's own mmap cannot be told where."""
    function = ctypes.CDLL(None, use_errno=True).mmap
    function.restype = ctypes.c_void_p
    size, number = ctypes.c_size_t, ctypes.c_int
    function.argtypes = (ctypes.c_void_p, size, number, number, number, ctypes.c_ssize_t)
    return function
