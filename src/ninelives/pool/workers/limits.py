"""Limits of a worker: its steps, age and memory, and the size of its log."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from ninelives import host
from ninelives.pool.workers.worker import WorkerProcess
from ninelives.spec.options import PoolOptions
from ninelives.supervise.machine import NS, WorkerState

LOG_LIMIT_BYTES = 64 << 20
"""A worker's log is emptied beyond this; its end is what matters."""


def overdue(
    workers: Iterable[WorkerProcess], options: PoolOptions, now_ns: int, steps_of: Callable[[WorkerProcess], int]
) -> tuple[int, str] | None:
    """The oldest running worker past a limit, with the reason. One at a time: the others wait."""
    for worker in sorted(workers, key=lambda worker: worker.ready_ns):
        if worker.machine.state is WorkerState.RUNNING:
            reason = _reason(worker, options, now_ns, steps_of(worker) - worker.steps_at_start)
            if reason:
                return worker.index, reason
    return None


def _reason(worker: WorkerProcess, options: PoolOptions, now_ns: int, steps: int) -> str:
    age_s, more = (now_ns - worker.ready_ns) / NS, worker.jitter
    if options.max_steps and steps >= options.max_steps * more:
        return f"served {steps} steps"
    if options.max_age_s and age_s >= options.max_age_s * more:
        return f"{age_s:.0f} s old"
    if options.max_rss_bytes and (rss := host.resident_bytes(worker.pid or 0)) >= options.max_rss_bytes * more:
        return f"grew to {rss / 1e6:.0f} MB"
    return ""


def trim_log(path: os.PathLike[str]) -> None:
    """Empty a log that grew too large; its writer appends, so it goes on at the new end."""
    try:
        if os.stat(path).st_size > LOG_LIMIT_BYTES:
            os.truncate(path, 0)
    except FileNotFoundError:
        pass
