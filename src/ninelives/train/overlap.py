"""Where the learner's next rollout comes from: collected now, or by a thread while the learner learns.

::

    serial    collect 1 ─ learn 1 ─ collect 2 ─ learn 2 ─ collect 3 ─ ...
    overlap   collect 1 ┬ learn 1 ──┬ learn 2 ──┬ learn 3 ──┬ ...
                        └ collect 2 ┴ collect 3 ┴ collect 4 ┴ ...      each with the weights of its start

With overlap, the learner's weights are exactly one version newer than those that acted, in every rollout but the first:
a constant, not a race. Also owns the decision for ``overlap="auto"``. Must never learn.
"""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from ninelives.train.collect import Collector
from ninelives.train.learner import Learner
from ninelives.train.policy.weights import FlatWeights, PublishedWeights
from ninelives.train.rollout import Rollout
from ninelives.train.sizing import Decision

TINY = 1e8
"""Operations of a gradient step below which most of its time is Python's, which two threads cannot run at once."""

GAIN = 1.15
"""Overlap must promise to be this much faster: below that, acting with older weights is not worth it."""


class RolloutSource(Protocol):
    """Gives the learner one rollout after the other.

    Attributes:
        collected_s: how long collecting took, in the cycle that ``finish`` ended last.
    """

    collected_s: float

    def next_rollout(self) -> Rollout:
        """The next rollout to learn from."""

    def start_next(self) -> None:
        """Called when the learner starts to learn, if it will need another rollout."""

    def finish(self) -> None:
        """Called when the learner has learned; collecting has ended when this returns."""

    def close(self) -> None:
        """End collecting."""

    def state_dict(self) -> dict[str, Any] | None:
        """The rollout that was collected but not learned from yet, if any."""

    def load_state_dict(self, state: Mapping[str, Any] | None) -> None:
        """Continue from a saved state."""


class SerialSource:
    """Collects when a rollout is asked for, with the learner's own network."""

    def __init__(self, collector: Collector, learner: Learner, rollout: Rollout) -> None:
        self._collector, self._learner, self._rollout = collector, learner, rollout
        self.collected_s = 0.0

    def next_rollout(self) -> Rollout:
        """Collect a rollout."""
        self._collector.collect(self._learner.policy, self._rollout, self._learner.version)
        self.collected_s = self._rollout.seconds
        return self._rollout

    def start_next(self) -> None:
        """Does nothing: no rollout is collected ahead."""

    def finish(self) -> None:
        """Does nothing: no rollout is collected ahead."""

    def close(self) -> None:
        """Does nothing: no rollout is collected ahead."""

    def state_dict(self) -> dict[str, Any] | None:
        """None: no rollout is collected ahead."""
        return None

    def load_state_dict(self, state: Mapping[str, Any] | None) -> None:
        """Does nothing: no rollout is collected ahead."""


class OverlappedSource:
    """Collects in a thread while the learner learns, with a copy of its network.

    Args:
        collector: used only by the thread while it collects.
        learner: its weights are copied when a rollout starts.
        rollouts: one is learned from while the other is filled.
        threads: torch threads of the learner; the collecting thread uses one.
    """

    def __init__(self, collector: Collector, learner: Learner, rollouts: tuple[Rollout, Rollout], threads: int) -> None:
        self._collector, self._learner = collector, learner
        self._filled, self._free = rollouts
        self._actor = copy.deepcopy(learner.policy)
        self._actor_weights = FlatWeights(self._actor)
        self._published = PublishedWeights(len(learner.weights))
        self._copy = np.empty(len(learner.weights), np.float32)
        self._is_ahead, self.collected_s = False, 0.0
        self._thread = ThreadPoolExecutor(1, "ninelives-collect")
        self._thread.submit(torch.set_num_threads, 1).result()
        torch.set_num_threads(threads)  # for MKL the last call decides for all threads
        self._collecting: Future[None] | None = None

    def next_rollout(self) -> Rollout:
        """The rollout that was collected ahead; the first one is collected now."""
        if not self._is_ahead:
            self.start_next()
            self.finish()
        self._is_ahead = False
        self._filled, self._free = self._free, self._filled
        return self._filled

    def start_next(self) -> None:
        """Start to collect the next rollout with the weights as they are now."""
        self._published.publish(self._learner.weights.values.detach().cpu().numpy())
        self._collecting = self._thread.submit(self._collect, self._learner.version)

    def finish(self) -> None:
        """Wait for the rollout that is being collected."""
        self.collected_s = 0.0
        if self._collecting is not None:
            collecting, self._collecting = self._collecting, None
            collecting.result()
            self._is_ahead, self.collected_s = True, self._free.seconds

    def close(self) -> None:
        """End the thread after its current step, as soon as the pool answers or gives up."""
        self._collector.stop()
        self._thread.shutdown()

    def state_dict(self) -> dict[str, Any] | None:
        """The rollout that was collected ahead, if any."""
        return self._free.state_dict() if self._is_ahead else None

    def load_state_dict(self, state: Mapping[str, Any] | None) -> None:
        """Continue with a rollout that was collected ahead before."""
        self._is_ahead = state is not None
        if state is not None:
            self._free.load_state_dict(state)

    def _collect(self, version: int) -> None:
        self._published.read(self._copy)
        self._actor_weights.copy_from(self._copy)
        self._collector.collect(self._actor, self._free, version)


# ---- overlap="auto" --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CycleTimes:
    """One cycle measured without overlap.

    Attributes:
        collect_s: time of collecting.
        learn_s: time of learning.
        cpu_s: CPU time of both, summed over all processes.
    """

    collect_s: float
    learn_s: float
    cpu_s: float


def choose_overlap(cycle: CycleTimes, cores: int) -> Decision:
    """Whether collecting and learning at the same time would pay: 1 or 0."""
    serial = cycle.collect_s + cycle.learn_s
    limits = {
        "collecting": cycle.collect_s,
        "learning": cycle.learn_s,
        f"{cores} cores": cycle.cpu_s / cores,
    }
    limit = max(limits, key=lambda name: limits[name])
    gain = serial / max(limits[limit], 1e-9)
    measured = f"collecting {cycle.collect_s * 1e3:.0f} ms, learning {cycle.learn_s * 1e3:.0f} ms"
    if gain >= GAIN:
        return Decision(1, f"overlap=on: {measured}; overlapped up to {gain:.2f} times as fast, limited by {limit}")
    return Decision(0, f"overlap=off: {measured}; overlapped only {gain:.2f} times as fast, limited by {limit}")


class CpuTimer:
    """CPU time of this process and of a pool's workers, from the moment it is made."""

    def __init__(self, pids: Iterable[int | None]) -> None:
        self._own = time.process_time()
        self._workers = {pid: process_cpu_s(pid) for pid in pids if pid is not None}

    def elapsed_s(self) -> float:
        """CPU time since then; workers that are gone do not count."""
        used = [process_cpu_s(pid) - before for pid, before in self._workers.items()]
        return time.process_time() - self._own + sum(max(0.0, seconds) for seconds in used)


def process_cpu_s(pid: int) -> float:
    """CPU time of a process; 0 if it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
