"""The one seam through which a run is watched and ended: callbacks. Must never know who listens."""

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
"""What ``on_fault`` hears: something broke, and what became of it."""


class StopTraining(Exception):
    """Raise it in a callback to end the run in good order after this update: last checkpoint, result, all closed."""


class Callback:
    """Override what you want to hear. Called in the thread that called ``ppo``, except ``on_batch``.

    An exception ends the run: the pool is closed, then it is raised.

    Attributes:
        batch_every_s: ``on_batch`` is called at most so often; None: never.
    """

    batch_every_s: float | None = None

    def on_start(self, started: records.Started) -> None:
        """Everything is built."""

    def on_rollout(self, rollout: records.Rollout) -> None:
        """A rollout was collected."""

    def on_update(self, update: records.Update) -> None:
        """The network learned from a rollout."""

    def on_episode(self, episode: records.Episode) -> None:
        """An episode ended; heard when its rollout is complete."""

    def on_fault(self, event: events.Event) -> None:
        """Something broke in the pool, or was healed."""

    def on_event(self, event: events.Event) -> None:
        """Anything happened in the pool; faults too."""

    def on_choice(self, chosen: records.Chosen) -> None:
        """Something was measured and chosen after the start."""

    def on_batch(self, pool: Pool, batch: Batch) -> None:
        """A batch was received and nothing is under way, so ``pool.call`` is allowed. By the collecting thread."""

    def on_checkpoint(self, written: records.CheckpointWritten) -> None:
        """A checkpoint is on disk."""

    def on_end(self, result: records.Result) -> None:
        """The run ended in good order."""


class Callbacks(Callback):
    """Several, called in order; whoever raises ``StopTraining`` is heard at the end of the update.

    Attributes:
        stop_asked: whether one of them wants the run to end.
    """

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self._all = tuple(callbacks)
        paces = [callback.batch_every_s for callback in self._all if callback.batch_every_s is not None]
        self.batch_every_s = min(paces) if paces else None
        self.stop_asked = False

    def on_start(self, started: records.Started) -> None:
        """Tell all."""
        self._tell("on_start", started)

    def on_rollout(self, rollout: records.Rollout) -> None:
        """Tell all."""
        self._tell("on_rollout", rollout)

    def on_update(self, update: records.Update) -> None:
        """Tell all."""
        self._tell("on_update", update)

    def on_episode(self, episode: records.Episode) -> None:
        """Tell all."""
        self._tell("on_episode", episode)

    def on_fault(self, event: events.Event) -> None:
        """Tell all."""
        self._tell("on_fault", event)

    def on_event(self, event: events.Event) -> None:
        """Tell all; those that are faults also as such."""
        self._tell("on_event", event)
        if isinstance(event, FAULTS):
            self.on_fault(event)

    def on_choice(self, chosen: records.Chosen) -> None:
        """Tell all."""
        self._tell("on_choice", chosen)

    def on_batch(self, pool: Pool, batch: Batch) -> None:
        """Tell those that want batches."""
        for callback in self._all:
            if callback.batch_every_s is not None:
                self._call(callback.on_batch, pool, batch)

    def on_checkpoint(self, written: records.CheckpointWritten) -> None:
        """Tell all."""
        self._tell("on_checkpoint", written)

    def on_end(self, result: records.Result) -> None:
        """Tell all."""
        self._tell("on_end", result)

    def _tell(self, name: str, fact: Any) -> None:
        for callback in self._all:
            self._call(getattr(callback, name), fact)

    def _call(self, method: Callable[..., None], *args: Any) -> None:
        try:
            method(*args)
        except StopTraining:
            self.stop_asked = True
