"""A training run on the terminal: passes the trainer's callbacks on to the live view; ``--visualize`` adds pictures."""

from __future__ import annotations

from ninelives import events
from ninelives.errors import NinelivesError
from ninelives.pool.batch import Batch
from ninelives.pool.pool import Pool
from ninelives.spec.env import EnvSpec
from ninelives.train import records
from ninelives.train.callbacks import Callback
from ninelives.view.half_blocks import Image
from ninelives.view.mosaic import Mosaic, picture_of, row_of
from ninelives.view.progress import ProgressView

PICTURE_EVERY_S = 0.25
"""Four pictures a second are enough to follow; each costs the collecting thread a few milliseconds."""

STOPPING = "finishing this update; again to stop now"


class Display(Callback):
    """Feeds a ``ProgressView``. ``visualize`` shows every slot; with ``seconds``, the run ends by time."""

    def __init__(self, view: ProgressView, *, visualize: bool = False, seconds: float | None = None) -> None:
        self._view, self._seconds = view, seconds
        self._pictures: list[Image | None] = []
        self.batch_every_s = PICTURE_EVERY_S if visualize else None

    def on_start(self, started: records.Started) -> None:
        """Show what is about to happen, and why."""
        config = started.config
        self._view.begin(EnvSpec.of(config.env).label, started.step, config.timesteps, self._seconds)
        if started.step:
            self._view.say(f"continuing at step {started.step:,}")
        for sentence in started.because:
            self._view.say(sentence)
        if started.run_dir is not None:
            self._view.say(f"run: {started.run_dir}")
        if self.batch_every_s is not None and not self._view.is_live:
            self._view.say("--visualize needs a terminal that can be redrawn; training continues without pictures")
            self.batch_every_s = None

    def on_event(self, event: events.Event) -> None:
        """Show faults, restarts and the states of slots."""
        self._view.emit(event)

    def on_choice(self, chosen: records.SettingChosen) -> None:
        """Show what was measured and chosen."""
        self._view.say(chosen.because)

    def on_episode(self, episode: records.EpisodeDone) -> None:
        """Count the episode."""
        self._view.episode(episode.total)

    def on_rollout(self, rollout: records.RolloutDone) -> None:
        """Show the progress."""
        self._view.rollout(rollout.step, rollout.mean_return, rollout.valid_share)

    def on_update(self, update: records.UpdateDone) -> None:
        """Show losses and idle shares."""
        idle = {"collector": update.idle_collect, "learner": update.idle_learn}
        self._view.update(update.version, update.losses, idle)

    def on_stop_signal(self) -> None:
        """Answer Ctrl-C at once; the update may take a while."""
        self._view.announce(STOPPING)

    def on_batch(self, pool: Pool, batch: Batch) -> None:
        """Update the pictures of the slots in this batch."""
        self._pictures = self._pictures or [None] * pool.num_envs
        if picture_of(row_of(batch.obs, 0)) is not None:
            for row, slot in enumerate(batch.slots.tolist()):
                self._pictures[slot] = picture_of(row_of(batch.obs, row))
        elif not self._render(pool):
            return
        self._view.pictures(Mosaic(self._pictures))

    def _render(self, pool: Pool) -> bool:
        try:
            rendered = pool.call("render")
        except NinelivesError as error:
            rendered, reason = (), str(error).splitlines()[0]
        else:
            reason = "observations are not images, and render() returns none"
        self._pictures = [picture_of(picture) for picture in rendered]
        if any(picture is not None for picture in self._pictures):
            return True
        self.batch_every_s = None
        self._view.say(f"--visualize: no pictures: {reason}; training continues without them")
        return False
