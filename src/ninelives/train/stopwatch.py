"""Processor time of this process and of a pool's workers, to judge what could run at once."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable


class Stopwatch:
    """Runs from when it is made."""

    def __init__(self, pids: Iterable[int | None]) -> None:
        self._own = time.process_time()
        self._workers = {pid: worker_cpu_s(pid) for pid in pids if pid is not None}

    def all_s(self) -> float:
        """Processor time of this process and of those workers that are still there."""
        used = [worker_cpu_s(pid) - before for pid, before in self._workers.items()]
        return time.process_time() - self._own + sum(max(0.0, seconds) for seconds in used)


def worker_cpu_s(pid: int) -> float:
    """Processor time a process has used; zero if it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
