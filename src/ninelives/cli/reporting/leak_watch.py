"""Watches the memory of the workers of a training run and says which flag cures a leak. Changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable

from ninelives import host
from ninelives.train import records
from ninelives.train.callbacks import Callback
from ninelives.view.memory_growth import SizeHistory, memory_limit
from ninelives.view.words import bytes_in_words

EVERY_S = 2.0
"""Reading the sizes of all workers costs microseconds each; a fast leak is noticed within seconds."""


class LeakWatch(Callback):
    """Notes sizes between updates; the first worker that grows steadily is named, once in a run."""

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._say, self._clock = say, clock
        self._histories: dict[int, SizeHistory] = {}
        self._is_over = False
        self.lines: list[str] = []

    def on_start(self, started: records.Started) -> None:
        """Watch, unless workers are replaced before they grow large."""
        self._pool = started.pool
        limits = started.config.pool
        self._is_over = limits.max_rss_bytes is not None or limits.max_steps is not None

    def on_update(self, update: records.UpdateDone) -> None:
        """Note the sizes if it is time."""
        if self._is_over:
            return
        pids = {pid: worker for worker, pid in enumerate(self._pool.worker_pids) if pid is not None}
        self._histories = {pid: self._histories.get(pid) or SizeHistory(EVERY_S) for pid in pids}
        now = self._clock()
        for pid, history in self._histories.items():
            if history.is_due(now):
                history.note(now, host.resident_bytes(pid))
        growing = [pid for pid, history in self._histories.items() if history.grows_steadily]
        if growing:
            self._name(pids[growing[0]], self._histories[growing[0]])

    def _name(self, worker: int, history: SizeHistory) -> None:
        first, last = history.sizes[0], history.sizes[-1]
        flag = f"--pool.max-rss-bytes {memory_limit(last)}"
        self.lines = [
            f"worker {worker} grows steadily, from {bytes_in_words(first)} to {bytes_in_words(last)} so far: if its "
            f"environment leaks memory, {flag} replaces a worker before it gets that large; nothing is lost"
        ]
        self._say(self.lines[0])
        self._is_over = True
