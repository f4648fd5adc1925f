"""Counts what a run has done and reports it to the callbacks: episodes, rollouts, updates. Must never learn."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from ninelives.train import records
from ninelives.train.callbacks import Callbacks
from ninelives.train.event_bridge import EventBridge
from ninelives.train.rollout import Rollout


class RunProgress:
    """Counters of a run, kept when it is resumed, and the reports that depend on them.

    Attributes:
        step: steps learned from.
        episodes: number of episodes that have ended.
    """

    def __init__(self, callbacks: Callbacks, bridge: EventBridge, window: int) -> None:
        self._callbacks, self._bridge = callbacks, bridge
        self._returns: deque[float] = deque(maxlen=window)
        self.step = self.episodes = 0
        self._started_s = self._reported_s = time.perf_counter()

    @property
    def mean_return(self) -> float | None:
        """Over the last ``log.window`` episodes; None before the first."""
        return float(np.mean(self._returns)) if self._returns else None

    @property
    def seconds(self) -> float:
        """Since this process started or resumed the run."""
        return time.perf_counter() - self._started_s

    def report_rollout(self, rollout: Rollout) -> None:
        """Count and report a complete rollout and its episodes."""
        size, now = rollout.steps * rollout.slots, time.perf_counter()
        self._report_episodes(rollout)
        self.step += size
        self._callbacks.on_rollout(
            records.RolloutDone(
                step=self.step,
                seconds=rollout.seconds,
                steps_per_s=size / max(now - self._reported_s, 1e-9),
                version=rollout.version,
                valid_share=float(rollout.valid.mean()),
                learned_share=float(rollout.learned.mean()),
                mean_return=self.mean_return,
                episodes=self.episodes,
            )
        )
        self._reported_s = now
        self._bridge.deliver()

    def _report_episodes(self, rollout: Rollout) -> None:
        seconds = self.seconds
        for ended in rollout.episodes:
            self.episodes += 1
            self._returns.append(ended.total)
            self._callbacks.on_episode(
                records.EpisodeDone(
                    slot=ended.slot,
                    step=self.step + (ended.row + 1) * rollout.slots,
                    total=ended.total,
                    length=ended.length,
                    seconds=seconds,
                    took_s=ended.took_s,
                )
            )

    def report_update(self, update: records.UpdateDone) -> None:
        """Report an update."""
        self._callbacks.on_update(update)
        self._bridge.deliver()

    def state_dict(self) -> dict[str, Any]:
        """All counters."""
        return {"step": self.step, "episodes": self.episodes, "returns": list(self._returns)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from saved counters."""
        self.step, self.episodes = int(state["step"]), int(state["episodes"])
        self._returns.extend(map(float, state["returns"]))
