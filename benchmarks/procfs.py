"""What the kernel tells about processes and the machine: trees, CPU time, memory, model. Linux only."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
CPU_CLOCK = 2


def tree(root: int) -> list[int]:
    """A process and all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (parent := parent_of(int(entry))) is not None:
            children.setdefault(parent, []).append(int(entry))
    found, todo = [], [root]
    while todo:
        found.append(todo.pop())
        todo += children.get(found[-1], [])
    return found


def parent_of(pid: int) -> int | None:
    """The parent of a process; None if it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return int(stat[stat.rindex(")") + 2 :].split()[1])


def cpu_s(pids: list[int]) -> float:
    """CPU time of processes so far, in nanosecond resolution; one that has ended counts as zero."""
    total = 0.0
    for pid in pids:
        try:
            total += time.clock_gettime((~pid << 3) | CPU_CLOCK)
        except OSError:
            pass
    return total


def pss_mb(pids: Sequence[int]) -> float:
    """Memory of processes, shared pages divided among those who share them."""
    return sum(_rollup_kb(pid, "Pss:") for pid in pids) / 1024


def private_mb(pids: Sequence[int]) -> float:
    """Memory that processes have for themselves."""
    return sum(_rollup_kb(pid, "Private_") for pid in pids) / 1024


def own_mb(pid: int) -> float | None:
    """Memory of a process that is backed by no file, also where it still shares it with those it was forked from.

    None if the process has ended.
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon:")), None)


def _rollup_kb(pid: int, kind: str) -> int:
    """The sum of the lines that begin with ``kind``; zero for a process that has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(kind))


def machine_s() -> tuple[float, float]:
    """CPU time of the whole machine so far: busy, and stolen by the host."""
    with open("/proc/stat") as lines:
        user, nice, system, _, _, irq, softirq, steal = map(int, lines.readline().split()[1:9])
    return (user + nice + system + irq + softirq) / TICKS, steal / TICKS


def describe_machine() -> dict[str, str]:
    """Processor, cores, memory, kernel and interpreter, for the head of the results."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "memory": f"{memory:.1f} GB",
        "kernel": f"{platform.system()} {platform.release().partition('-')[0]}",
        "Python": platform.python_version(),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
