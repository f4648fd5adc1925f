"""Callbacks: the only way to observe a run and to stop it from outside. Must never know who listens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ninelives import events
from ninelives.train import records

if TYPE_CHECKING:
    from ninelives.pool.batch import Batch
    from ninelives.pool.pool import Pool

FAULTS = (
    events.FaultSeen,
    events.SlotHealed,
    events.HealFailed,
    events.EpisodeStarted,
    events.SlotQuarantined,
    events.KeeperLost,
)
"""Events that ``on_fault`` receives: faults, and how they were handled."""


class StopTraining(Exception):
    """Raise this in a callback to end the run after the current update, with a last checkpoint and a result."""


class Callback:
    """Override the methods you need. All but ``on_batch`` are called in the thread that called ``train``.

    An exception other than ``StopTraining`` ends the run: the pool is closed, then the exception is raised.

    Attributes:
        batch_every_s: least time between two calls of ``on_batch``; None: never called.
    """

    batch_every_s: float | None = None

    def on_start(self, started: records.Started) -> None:
        """Everything is built."""

    def on_rollout(self, rollout: records.RolloutDone) -> None:
        """A rollout was collected."""

    def on_update(self, update: records.UpdateDone) -> None:
        """The network learned from a rollout."""

    def on_episode(self, episode: records.EpisodeDone) -> None:
        """An episode ended; called when its rollout is complete."""

    def on_fault(self, event: events.Event) -> None:
        """A fault occurred in the pool, or was healed."""

    def on_event(self, event: events.Event) -> None:
        """Any event of the pool, faults included."""

    def on_choice(self, chosen: records.SettingChosen) -> None:
        """A setting was chosen by measurement after the start."""

    def on_batch(self, pool: Pool, batch: Batch) -> None:
        """A batch was received and the pool is idle, so ``pool.call`` is allowed. Called in the collecting thread."""

    def on_checkpoint(self, written: records.CheckpointWritten) -> None:
        """A checkpoint is on disk."""

    def on_stop_signal(self) -> None:
        """Ctrl-C or SIGTERM arrived: the run ends after this update. Called in the signal handler: take no lock."""

    def on_end(self, result: records.Result) -> None:
        """The run ended without an error."""


class Callbacks(Callback):
    """Several callbacks, called in order; ``StopTraining`` is noted and takes effect at the end of the update.

    Attributes:
        stop_asked: whether a callback raised ``StopTraining``.
    """

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self._all = tuple(callbacks)
        paces = [callback.batch_every_s for callback in self._all if callback.batch_every_s is not None]
        self.batch_every_s = min(paces) if paces else None
        self.stop_asked = False

    def on_start(self, started: records.Started) -> None:
        """Call all callbacks."""
        self._call_all("on_start", started)

    def on_rollout(self, rollout: records.RolloutDone) -> None:
        """Call all callbacks."""
        self._call_all("on_rollout", rollout)

    def on_update(self, update: records.UpdateDone) -> None:
        """Call all callbacks."""
        self._call_all("on_update", update)

    def on_episode(self, episode: records.EpisodeDone) -> None:
        """Call all callbacks."""
        self._call_all("on_episode", episode)

    def on_fault(self, event: events.Event) -> None:
        """Call all callbacks."""
        self._call_all("on_fault", event)

    def on_event(self, event: events.Event) -> None:
        """Call all callbacks; faults are passed to ``on_fault`` as well."""
        self._call_all("on_event", event)
        if isinstance(event, FAULTS):
            self.on_fault(event)

    def on_choice(self, chosen: records.SettingChosen) -> None:
        """Call all callbacks."""
        self._call_all("on_choice", chosen)

    def on_batch(self, pool: Pool, batch: Batch) -> None:
        """Call the callbacks with a ``batch_every_s``."""
        for callback in self._all:
            if callback.batch_every_s is not None:
                self._call(callback.on_batch, pool, batch)

    def on_checkpoint(self, written: records.CheckpointWritten) -> None:
        """Call all callbacks."""
        self._call_all("on_checkpoint", written)

    def on_stop_signal(self) -> None:
        """Call all callbacks."""
        self._call_all("on_stop_signal")

    def on_end(self, result: records.Result) -> None:
        """Call all callbacks."""
        self._call_all("on_end", result)

    def _call_all(self, name: str, *record: Any) -> None:
        for callback in self._all:
            self._call(getattr(callback, name), *record)

    def _call(self, method: Callable[..., None], *args: Any) -> None:
        try:
            method(*args)
        except StopTraining:
            self.stop_asked = True
