"""The demo's training run: kills one worker on purpose and reports afterwards what happened."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ninelives import events
from ninelives.train import records
from ninelives.train.callbacks import Callback, StopTraining
from ninelives.view.curve import chart
from ninelives.view.words import plural, seconds_in_words, slots_in_words

KILL_AT = 0.5
"""Share of the time after which the worker is killed."""

PATIENCE = 2.0
"""A run whose killed slots are not back yet continues, up to this many times its planned time."""


@dataclass
class DemoReport:
    """What happened in the run."""

    victims: tuple[int, ...] = ()
    killed_pid: int | None = None
    killed_at: int = 0
    killed_s: float = 0.0
    back_s: float | None = None
    replayed: dict[int, int] = field(default_factory=dict)
    rows_lost: float = 0.0
    step: int = 0
    episodes: list[tuple[float, float]] = field(default_factory=list)
    curve: list[tuple[float, float]] = field(default_factory=list)

    @property
    def recovered(self) -> bool:
        """Whether the killed slots came back, no row was lost, and training continued."""
        return self.back_s is not None and not self.rows_lost and self.step > self.killed_at

    def note(self, event: events.Event) -> None:
        """Note which of the killed slots were healed, and how many steps were replayed."""
        if self.killed_pid is not None and isinstance(event, events.SlotHealed):
            self.replayed[event.slots[0]] = event.replayed
            if self.back_s is None and self.replayed.keys() >= set(self.victims):
                self.back_s = event.at_s - self.killed_s

    def lines(self) -> list[str]:
        """The curve, the kill, and whether training was affected."""
        lines = ["", "mean return of the last episodes, over steps:", *chart(self.curve), ""]
        if self.curve:
            lines.append(f"mean return: {self.curve[0][1]:,.2f} at the start, {self.curve[-1][1]:,.2f} at the end")
        if self.killed_pid is None:
            return [*lines, "the time was too short to kill a worker"]
        where = slots_in_words(self.victims)
        lines.append(f"halfway, at step {self.killed_at:,}, a worker (pid {self.killed_pid}) was killed by SIGKILL")
        if self.back_s is None:
            return [*lines, f"{where} never came back; see `ninelives doctor`"]
        replayed = plural(sum(self.replayed.values()), "step")
        back = seconds_in_words(self.back_s)
        lines.append(f"its {where} were back in the same state after {back}: {replayed} replayed, every row compared")
        return [*lines, self._verdict()]

    def _verdict(self) -> str:
        if not self.recovered:
            return f"{self.rows_lost:.2%} of the rows were lost, which should not happen; see `ninelives doctor`"
        return f"training continued: {self.step - self.killed_at:,} steps after the kill, 0 rows lost"


class DemoCallback(Callback):
    """Kills a worker halfway, ends the run when the time is over, and notes what happened."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.report, self.is_over = DemoReport(), False
        self._seconds, self._clock = seconds, clock

    def on_start(self, started: records.Started) -> None:
        """Start the clock."""
        self._pool, self._began = started.pool, self._clock()

    def on_episode(self, episode: records.EpisodeDone) -> None:
        """Note the episode's return."""
        self.report.episodes.append((episode.step, episode.total))

    def on_rollout(self, rollout: records.RolloutDone) -> None:
        """Note the mean return and lost rows."""
        self.report.step = rollout.step
        self.report.rows_lost = max(self.report.rows_lost, 1 - rollout.valid_share)
        if rollout.mean_return is not None:
            self.report.curve.append((rollout.step, rollout.mean_return))

    def on_event(self, event: events.Event) -> None:
        """Note which of the killed slots are back."""
        self.report.note(event)

    def on_update(self, update: records.UpdateDone) -> None:
        """Kill the worker, or end the run, when it is time."""
        passed = self._clock() - self._began
        if self.report.killed_pid is None and passed >= KILL_AT * self._seconds:
            self._kill()
        elif passed >= self._seconds and (self.report.recovered or passed >= PATIENCE * self._seconds):
            self.is_over = True
            raise StopTraining

    def _kill(self) -> None:
        worker = self._pool.workers - 1
        pid = self._pool.worker_pids[worker]
        if pid is None:
            return
        report = self.report
        report.victims, report.killed_pid, report.killed_at = self._pool.slots_of(worker), pid, report.step
        report.killed_s = self._clock()
        os.kill(pid, signal.SIGKILL)
