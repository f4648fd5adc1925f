"""Counts what a run has done and tells its callbacks: episodes, rollouts, updates. Changes nothing that is learned."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from ninelives.train import records
from ninelives.train.callbacks import Callbacks
from ninelives.train.event_bridge import Inbox
from ninelives.train.rollout import Rollout


class Teller:
    """Counters of a run, across its resumptions, and the voice that tells of them.

    Attributes:
        step: steps learned from.
        episodes: that have ended.
    """

    def __init__(self, heard: Callbacks, inbox: Inbox, window: int) -> None:
        self._heard, self._inbox = heard, inbox
        self._returns: deque[float] = deque(maxlen=window)
        self.step = self.episodes = 0
        self._begun_s = self._told_s = time.perf_counter()

    @property
    def mean_return(self) -> float | None:
        """Over the last episodes."""
        return float(np.mean(self._returns)) if self._returns else None

    @property
    def seconds(self) -> float:
        """Since this process's part of the run began."""
        return time.perf_counter() - self._begun_s

    def rollout(self, rollout: Rollout) -> None:
        """A rollout and its episodes are complete."""
        size, now = rollout.steps * rollout.slots, time.perf_counter()
        self._tell_episodes(rollout)
        self.step += size
        self._heard.on_rollout(
            records.Rollout(
                step=self.step,
                seconds=rollout.seconds,
                steps_per_s=size / max(now - self._told_s, 1e-9),
                version=rollout.version,
                valid_share=float(rollout.valid.mean()),
                learned_share=float(rollout.learned.mean()),
                mean_return=self.mean_return,
                episodes=self.episodes,
            )
        )
        self._told_s = now
        self._inbox.look()

    def _tell_episodes(self, rollout: Rollout) -> None:
        seconds = self.seconds
        for ended in rollout.episodes:
            self.episodes += 1
            self._returns.append(ended.total)
            self._heard.on_episode(
                records.Episode(
                    slot=ended.slot,
                    step=self.step + (ended.row + 1) * rollout.slots,
                    total=ended.total,
                    length=ended.length,
                    seconds=seconds,
                    took_s=ended.took_s,
                )
            )

    def update(self, update: records.Update) -> None:
        """The network has learned."""
        self._heard.on_update(update)
        self._inbox.look()

    def state_dict(self) -> dict[str, Any]:
        """Everything that is counted."""
        return {"step": self.step, "episodes": self.episodes, "returns": list(self._returns)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.step, self.episodes = int(state["step"]), int(state["episodes"])
        self._returns.extend(state["returns"])
