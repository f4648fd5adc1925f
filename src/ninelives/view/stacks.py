"""Finds the line that caused a fault in the stack dump or traceback of a worker.

A faulthandler dump lists the innermost frame first, a traceback last. Frames of Ninelives's own worker are skipped; a
library's frame is reported together with the line of the environment that called it.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from ninelives.events import FaultSeen

_DUMPED = re.compile(r'^ *File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>.+)$', re.MULTILINE)
_TRACED = re.compile(r'^ *File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)$', re.MULTILINE)
_NATIVE = re.compile(r"^(?P<library>[^\s(]+)\((?P<symbol>[^)+]*)[^)]*\) ?\[0x", re.MULTILINE)
_OUR_ROOMS = re.compile(r"[/\\]ninelives[/\\](worker|supervise|spec)[/\\]")
_INSTALLED = re.compile(r"[/\\](site-packages|dist-packages|ninelives[/\\]sims|lib[/\\]python3[^/\\]*)[/\\]|^<frozen ")
_MACHINERY = re.compile(r"[/\\](gymnasium[/\\](core\.py|wrappers|envs[/\\]registration\.py)|stable_baselines3|shimmy)")
_IMPORTING = re.compile(r"^<frozen |[/\\]importlib[/\\]__init__\.py$")
_SYSTEM = re.compile(
    r"^(libc|libpython|libpthread|libm|libffi|_ctypes|ld-linux|_(?:loop|digest|stack)\.|ninelives-frames-|python|linux-vdso)"
)
CURRENT, NATIVE = "Current thread", "Native stack"


@dataclass(frozen=True)
class Frame:
    """One line of Python."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


def fault_place(fault: FaultSeen) -> str:
    """Where in the environment's code a fault arose; empty if neither traceback nor stack shows it."""
    return raising_line(fault.traceback) if fault.traceback else blamed_line(fault.stderr_tail)


def blamed_line(dump: str) -> str:
    """Where a hung or crashed worker was; empty if its dump does not show it."""
    python, _, native = dump.partition(NATIVE)
    _, current, stack = python.partition(CURRENT)
    own = _before_ours(_frames(_DUMPED, stack if current else python))
    library = _library(native)
    words = _blame(own)
    if library:
        return f"{words}, inside {library}" if words else f"native code of {library}"
    return words


def raising_line(traceback: str) -> str:
    """Where an exception was raised; empty if the text is not a traceback."""
    return _blame(_before_ours(_frames(_TRACED, traceback)[::-1]))


def exception_line(traceback: str) -> str:
    """The last line of a traceback: type and message."""
    lines = [line for line in traceback.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def _frames(pattern: re.Pattern[str], text: str) -> list[Frame]:
    return [Frame(found["file"], int(found["line"]), found["function"].strip()) for found in pattern.finditer(text)]


def _before_ours(frames: list[Frame]) -> list[Frame]:
    """The environment's part of a stack, innermost first: everything above the first frame of our own worker."""
    for depth, frame in enumerate(frames):
        if _OUR_ROOMS.search(frame.file):
            return frames[:depth]
    return frames


def _blame(frames: list[Frame]) -> str:
    frames = [frame for frame in frames if not _IMPORTING.search(frame.file)]
    if not frames:
        return ""
    innermost, own = frames[0], _own(frames)
    return str(own) if own == innermost else f"{innermost}, called from {own}"


def _own(frames: list[Frame]) -> Frame:
    """The innermost line that is not installed; of an installed environment, the line that its wrappers called."""
    called = next((frame for frame in reversed(frames) if not _MACHINERY.search(frame.file)), frames[0])
    return next((frame for frame in frames if not _INSTALLED.search(frame.file)), called)


def _library(native: str) -> str:
    """The innermost library that belongs neither to the system nor to Python nor to us."""
    for found in _NATIVE.finditer(native):
        name = os.path.basename(found["library"])
        if not _SYSTEM.match(name):
            return f"{name} ({found['symbol']})" if found["symbol"] else name
    return ""
