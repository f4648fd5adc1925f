"""What a program has left behind: child processes, open descriptors, shared segments, directories.

Only reads ``/proc`` and directories, so it is cheap enough to run around every test.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

LEFT_ALONE = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
"""Processes the standard library starts once and keeps on purpose."""

SEGMENT_NAMES = ("ninelives", "psm_", "sem.")
"""Name prefixes of shared memory of this package and of the standard library in ``/dev/shm``."""


@dataclass(frozen=True)
class Process:
    """One process: ``state`` is its state letter in ``/proc``, ``Z`` for a zombie."""

    pid: int
    parent: int
    state: str
    command: str

    def __str__(self) -> str:
        return f"{self.pid} ({self.state}, child of {self.parent}): {self.command}"


def processes() -> list[Process]:
    """Every process of the machine that can be read."""
    found = (_process(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return [process for process in found if process is not None]


def descendants(pid: int | None = None) -> list[Process]:
    """All descendants of a process (by default this one), zombies included."""
    children: dict[int, list[Process]] = defaultdict(list)
    for process in processes():
        children[process.parent].append(process)
    found, left = [], [os.getpid() if pid is None else pid]
    while left:
        below = children[left.pop()]
        found += below
        left += [process.pid for process in below]
    return [process for process in found if not any(name in process.command for name in LEFT_ALONE)]


def marked(name: str, value: str) -> list[Process]:
    """Processes that were started with this environment variable."""
    wanted = f"{name}={value}".encode()
    return [process for process in processes() if wanted in _read(process.pid, "environ").split(b"\0")]


def descriptors(pid: int | None = None) -> dict[int, str]:
    """Open descriptors and their targets."""
    folder = f"/proc/{pid or 'self'}/fd"
    found = {}
    for name in os.listdir(folder):
        try:
            found[int(name)] = os.readlink(f"{folder}/{name}")
        except OSError:
            continue  # the descriptor that listed the directory
    return found


def segments() -> set[str]:
    """Named shared memory that this package or the standard library may have created."""
    try:
        return {name for name in os.listdir("/dev/shm") if name.startswith(SEGMENT_NAMES)}
    except OSError:
        return set()


def directories(under: str | Path) -> set[str]:
    """Run directories in a temporary directory."""
    return {path.name for path in Path(under).glob("ninelives-*")}


def await_none(look: Callable[[], Iterable[object]], within_s: float) -> list[object]:
    """Poll until nothing is left or the time is over; returns what is left."""
    end = time.monotonic() + within_s
    while (left := list(look())) and time.monotonic() < end:
        time.sleep(0.01)
    return left


def _process(pid: int) -> Process | None:
    head, _, tail = _read(pid, "stat").decode(errors="replace").rpartition(")")
    if not tail:
        return None
    state, parent, *_ = tail.split()
    command = _read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()
    return Process(pid, int(parent), state, command[:200] or head.partition("(")[2])


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
