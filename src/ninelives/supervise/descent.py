"""Finding and ending the processes that children leave behind.

A program started by a child has ``CHILD_TAG`` in its environment; a fork without exec has the child's name. Reads
``/proc``; on systems without it, nothing is found.
"""

from __future__ import annotations

import contextlib
import os
import signal

CHILD_TAG = "NINELIVES_CHILD"
"""Environment variable that marks a child's descendants, so that those that left its group can still be found."""


def kill(pid: int, number: int, group: bool) -> None:
    """Send a signal to a process or its group; a process that is gone is not an error."""
    try:
        if group:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
    except ProcessLookupError:
        if group and number == signal.SIGKILL:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)  # it had not made its own group yet
    except PermissionError:
        pass


def is_there(pid: int) -> bool:
    """Whether a process of this number exists, including a dead one that has not been reaped."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def children_of_self() -> list[int]:
    """Direct children of this process, including adopted ones."""
    return [int(pid) for pid in _read(f"self/task/{os.getpid()}/children").split()]


def name_of(pid: int) -> str:
    """Name of a process."""
    return _read(f"{pid}/comm").decode(errors="replace").strip()


def tag_of(pid: int) -> str:
    """The tag that a process was started with, or an empty string."""
    for entry in _read(f"{pid}/environ").split(b"\0"):
        name, _, value = entry.partition(b"=")
        if name == CHILD_TAG.encode():
            return value.decode(errors="replace")
    return ""


def end_tagged(prefix: str) -> None:
    """Kill every process whose tag begins with ``prefix``: descendants that no keeper has adopted."""
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if entry.isdigit() and tag_of(int(entry)).startswith(prefix):
            kill(int(entry), signal.SIGKILL, group=False)


def _read(path: str) -> bytes:
    try:
        with open(f"/proc/{path}", "rb") as file:
            return file.read()
    except OSError:
        return b""
