"""Where the learner's next rollout comes from: collected now, or collected meanwhile by a thread.

::

    plain     collect 1 ─ learn 1 ─ collect 2 ─ learn 2 ─ collect 3 ─ ...
    overlap   collect 1 ┬ learn 1 ──┬ learn 2 ──┬ learn 3 ──┬ ...
                        └ collect 2 ┴ collect 3 ┴ collect 4 ┴ ...      each with the weights of its start

Overlapped, every rollout but the first is learned from by weights that are exactly one version newer than those that
acted: a constant, not a race. Must never learn.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
import torch

from ninelives.train.collect import Collector
from ninelives.train.learner import Learner
from ninelives.train.rollout import Rollout
from ninelives.train.weights import FlatWeights, Published


class Feed(Protocol):
    """Gives the learner one rollout after the other.

    Attributes:
        collected_s: how long collecting took, in the cycle that was settled last.
    """

    collected_s: float

    def take(self) -> Rollout:
        """The next rollout to learn from."""

    def ahead(self) -> None:
        """The learner begins to learn from what it took, and will want another one."""

    def settle(self) -> None:
        """The learner has learned: nothing may be under way when this returns."""

    def close(self) -> None:
        """End what is under way."""

    def state_dict(self) -> dict[str, Any] | None:
        """The rollout that was collected and not yet learned from."""

    def load_state_dict(self, state: Mapping[str, Any] | None) -> None:
        """Go on from there."""


class Plain:
    """Collects when it is asked, with the learner's own network."""

    def __init__(self, collector: Collector, learner: Learner, rollout: Rollout) -> None:
        self._collector, self._learner, self._rollout = collector, learner, rollout
        self.collected_s = 0.0

    def take(self) -> Rollout:
        """Collect."""
        self._collector.collect(self._learner.policy, self._rollout, self._learner.version)
        self.collected_s = self._rollout.seconds
        return self._rollout

    def ahead(self) -> None:
        """Nothing is collected ahead."""

    def settle(self) -> None:
        """Nothing is under way."""

    def close(self) -> None:
        """Nothing is under way."""

    def state_dict(self) -> dict[str, Any] | None:
        """Nothing was collected ahead."""
        return None

    def load_state_dict(self, state: Mapping[str, Any] | None) -> None:
        """Nothing was collected ahead."""


class Overlapped:
    """Collects in a thread while the learner learns, with a copy of its network.

    Args:
        collector: belongs to the thread while it collects.
        learner: its weights are copied when a rollout begins.
        rollouts: one is learned from while the other is filled.
        threads: of the learner's arithmetic; the collecting thread uses one.
    """

    def __init__(self, collector: Collector, learner: Learner, rollouts: tuple[Rollout, Rollout], threads: int) -> None:
        self._collector, self._learner = collector, learner
        self._filled, self._free = rollouts
        self._actor = copy.deepcopy(learner.policy)
        self._actor_weights = FlatWeights(self._actor)
        self._newest = Published(len(learner.weights))
        self._copy = np.empty(len(learner.weights), np.float32)
        self._is_ahead, self.collected_s = False, 0.0
        self._thread = ThreadPoolExecutor(1, "ninelives-collect")
        self._thread.submit(torch.set_num_threads, 1).result()
        torch.set_num_threads(threads)  # the last one to say so decides for MKL in all threads
        self._under_way: Future[None] | None = None

    def take(self) -> Rollout:
        """The rollout that was collected meanwhile; the first one is collected now."""
        if not self._is_ahead:
            self.ahead()
            self.settle()
        self._is_ahead = False
        self._filled, self._free = self._free, self._filled
        return self._filled

    def ahead(self) -> None:
        """Begin to collect the next rollout with the weights as they are now."""
        self._newest.publish(self._learner.weights.values.detach().cpu().numpy())
        self._under_way = self._thread.submit(self._collect, self._learner.version)

    def settle(self) -> None:
        """Wait for the rollout that is under way."""
        self.collected_s = 0.0
        if self._under_way is not None:
            under_way, self._under_way = self._under_way, None
            under_way.result()
            self._is_ahead, self.collected_s = True, self._free.seconds

    def close(self) -> None:
        """End the thread: before its next step, and that comes when the pool answers or gives up."""
        self._collector.stop()
        self._thread.shutdown()

    def state_dict(self) -> dict[str, Any] | None:
        """The rollout that was collected ahead."""
        return self._free.state_dict() if self._is_ahead else None

    def load_state_dict(self, state: Mapping[str, Any] | None) -> None:
        """Go on with a rollout that was collected before."""
        self._is_ahead = state is not None
        if state is not None:
            self._free.load_state_dict(state)

    def _collect(self, version: int) -> None:
        self._newest.read(self._copy)
        self._actor_weights.copy_from(self._copy)
        self._collector.collect(self._actor, self._free, version)
