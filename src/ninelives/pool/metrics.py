"""Per-slot numbers from the control words: nothing is sent, nothing is sampled by a thread.

Step times come from a histogram the worker's loop keeps (half octaves of nanoseconds), so percentiles are right to
about a fifth of their value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ninelives import host
from ninelives.pool.workers.fault_budget import FaultBudget
from ninelives.pool.workers.worker import WorkerProcess
from ninelives.spec.plan import Plan
from ninelives.transport.control import HISTOGRAM_BUCKETS, Control

STRAGGLER_FACTOR = 2.0
"""A slot whose median step takes so many times the pool's median is a straggler."""


@dataclass(frozen=True)
class SlotMetrics:
    """One slot's health."""

    slot: int
    worker: int
    steps: int
    episodes: int
    step_p50_s: float
    step_p95_s: float
    step_p99_s: float
    restarts: int
    quarantined: bool
    rss_bytes: int
    share_step: float
    share_reset: float
    share_construct: float
    share_idle: float
    straggler: bool


@dataclass(frozen=True)
class PoolMetrics:
    """All slots, and the whole."""

    seconds: float
    steps: int
    steps_per_s: float
    faults: int
    slots: tuple[SlotMetrics, ...]

    @property
    def stragglers(self) -> tuple[int, ...]:
        """Slots that are much slower than the rest."""
        return tuple(m.slot for m in self.slots if m.straggler)

    def as_dicts(self) -> tuple[dict[str, Any], ...]:
        """Per-slot numbers for an event."""
        return tuple(asdict(m) for m in self.slots)


def percentile(histogram: npt.NDArray[np.uint32], share: float) -> float:
    """Seconds below which ``share`` of the steps lie; the middle of the bucket."""
    total = int(histogram.sum())
    if not total:
        return 0.0
    bucket = int(np.searchsorted(np.cumsum(histogram), share * total))
    octave, half = divmod(min(bucket, HISTOGRAM_BUCKETS - 1), 2)
    return float(2**octave * (1.25 + 0.5 * half)) * 1e-9


def measure(
    control: Control, plan: Plan, seconds: float, workers: Sequence[WorkerProcess], budget: FaultBudget
) -> PoolMetrics:
    """Read everything once; ``seconds`` since the start."""
    seconds = max(seconds, 1e-9)
    medians = [percentile(control.step_histogram[s], 0.5) for s in range(plan.num_envs)]
    typical = float(np.median(medians))
    slots = tuple(
        _slot(control, workers[plan.group_worker[g]], slot, seconds, typical, slot in budget.quarantined)
        for g, group in enumerate(plan.group_slots)
        for slot in group
    )
    steps = int(control.steps.sum())
    return PoolMetrics(seconds, steps, steps / seconds, budget.faults, slots)


def _slot(
    control: Control, process: WorkerProcess, slot: int, seconds: float, typical: float, quarantined: bool
) -> SlotMetrics:
    histogram = control.step_histogram[slot]
    times = (control.step_ns, control.reset_ns, control.construct_ns)
    step, reset, construct = (int(field[slot]) * 1e-9 for field in times)
    median = percentile(histogram, 0.5)
    return SlotMetrics(
        slot=slot,
        worker=process.index,
        steps=int(control.steps[slot]),
        episodes=int(control.episodes[slot]),
        step_p50_s=median,
        step_p95_s=percentile(histogram, 0.95),
        step_p99_s=percentile(histogram, 0.99),
        restarts=process.restarts,
        quarantined=quarantined,
        rss_bytes=host.resident_bytes(process.pid) if process.pid else 0,
        share_step=min(1.0, step / seconds),
        share_reset=min(1.0, reset / seconds),
        share_construct=min(1.0, construct / seconds),
        share_idle=max(0.0, 1.0 - (step + reset + construct) / seconds),
        straggler=median > STRAGGLER_FACTOR * typical > 0,
    )
