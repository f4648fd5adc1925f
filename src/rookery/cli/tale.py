"""A run in which one worker is killed on purpose, and what every row had to say about it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rookery.events import Sink, SlotHealed
from rookery.pool.batch import Batch
from rookery.pool.pool import Pool
from rookery.view.words import plural, seconds_in_words, slots_in_words

ENV, SLOTS, WORKERS, VICTIM = "CartPole-v1", 16, 4, 1
FIRST_READY = 8
"""Slots in a batch: the first half that is ready, so that nobody waits for a worker that is away."""

TELL_EVERY_S = 0.1
"""Time between two looks at the display."""


@dataclass
class Tale:
    """What was seen of every row, and whether that is what was promised."""

    victims: tuple[int, ...]
    faults: int = 0
    killed_pid: int | None = None
    killed_s: float = 0.0
    back_s: float | None = None
    replayed: dict[int, int] = field(default_factory=dict)
    rows: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(SLOTS, np.int64))
    masked: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(SLOTS, np.int64))
    rows_before: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(SLOTS, np.int64))
    rows_back: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(SLOTS, np.int64))

    def kill(self, pid: int, now: float) -> None:
        """Kill a worker the hard way."""
        self.killed_pid, self.killed_s, self.rows_before = pid, now, self.rows.copy()
        os.kill(pid, signal.SIGKILL)

    def see(self, batch: Batch, now: float) -> None:
        """Note one batch."""
        self.rows[batch.slots] += 1
        self.masked[batch.slots] += ~batch.valid

    def hear(self, healed: Iterable[SlotHealed], now: float) -> None:
        """Note which slots were brought back, and by how many repeated steps."""
        self.replayed = {event.slots[0]: event.replayed for event in healed}
        if self.back_s is None and self.replayed.keys() >= set(self.victims):
            self.back_s, self.rows_back = now - self.killed_s, self.rows.copy()

    @property
    def others(self) -> list[int]:
        """The slots that must not notice anything."""
        return [slot for slot in range(SLOTS) if slot not in self.victims]

    @property
    def went_on(self) -> bool:
        """The killed slots came back, nobody lost a row, and everybody has stepped since."""
        return self.back_s is not None and not self.masked.any() and bool((self.rows > self.rows_before).all())

    def lines(self) -> list[str]:
        """The end of the story."""
        seen = plural(self.faults, "fault")
        lines = [
            f"{self.rows.sum():,} steps of {SLOTS} {ENV} environments in {WORKERS} workers",
            f"half way, worker {VICTIM} (pid {self.killed_pid}) was killed by SIGKILL: {seen} seen",
        ]
        if self.back_s is None:
            return [*lines, f"{slots_in_words(self.victims)} never came back; see `rookery doctor`"]
        return [*lines, *self._recovery(self.back_s), self._verdict()]

    def _recovery(self, back_s: float) -> list[str]:
        repeated = plural(sum(self.replayed.values()), "step")
        made = plural(int((self.rows_back - self.rows_before)[self.others].sum()), "step")
        lost = plural(int(self.masked.sum()), "row")
        return [
            f"its {slots_in_words(self.victims)} were back in the same state after {seconds_in_words(back_s)}: "
            f"{repeated} repeated, every row compared",
            f"the other {len(self.others)} slots made {made} meanwhile; {lost} lost",
        ]

    def _verdict(self) -> str:
        if not self.went_on:
            return "rows were lost, which should not happen; see `rookery doctor`"
        return f"the run went on: {plural(int((self.rows - self.rows_before).sum()), 'step')} after the kill"


def open_pool(sink: Sink) -> Pool:
    """The pool of the demonstration."""
    return Pool(ENV, SLOTS, workers=WORKERS, groups=1, batch_size=FIRST_READY, sinks=[sink])


def play(pool: Pool, seconds: float, update: Callable[..., None]) -> Tale:
    """A random policy until the time is over; the kill comes at half time."""
    rng, tale = np.random.default_rng(0), Tale(pool.slots_of(VICTIM))
    pool.reset(seed=0)
    pool.send(rng.integers(0, 2, SLOTS))
    began = now = told = time.monotonic()
    while now - began < seconds or (tale.back_s is None and now - began < 2 * seconds):
        batch = pool.recv()
        now = time.monotonic()
        tale.see(batch, now)
        pool.send(rng.integers(0, 2, len(batch)), batch.slots)
        if tale.killed_pid is None and now - began >= seconds / 2 and (pid := pool.worker_pids[VICTIM]) is not None:
            tale.kill(pid, now)
        if tale.killed_pid is not None and tale.back_s is None:
            tale.hear((event for event in pool.events if isinstance(event, SlotHealed)), now)
        if now - told >= TELL_EVERY_S:
            told = now
            update(int(tale.rows.sum()), None, pool.metrics().as_dicts(), eta_s=max(0.0, began + seconds - now))
    tale.faults = pool.metrics().faults
    return tale
