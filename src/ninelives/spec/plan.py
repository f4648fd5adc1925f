"""Which worker serves which slot: slots to workers, workers to groups, and how many of each make sense.

Pure arithmetic. Slots go to workers in contiguous blocks, a worker's slots to groups likewise. Seeds belong to
slots, so nothing here changes any trajectory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ninelives.errors import ConfigError

Slots = npt.NDArray[np.int64]
"""Slot numbers, as they index the rows of a batch."""

SYNC_COST_S = 25e-6
"""What one more worker costs per batch (measured 19 to 25 us per sync): below this much work it does not pay."""

WAITING_SHARE = 0.5
"""A step that uses less than this share of its time on the CPU waits for something outside: cores do not limit it."""

MOST_ENVS = 65_536
"""Slots of a pool: far more than one machine can step, and few enough that their control words fit into memory."""

MEMORY_SHARE = 0.8
"""Of the free memory, how much workers may be planned to fill."""


@dataclass(frozen=True)
class Probe:
    """What the first worker measured about one environment."""

    step_s: float | None
    cpu_share: float
    rss_bytes: int
    unknown: str = "slow to build"
    """Why ``step_s`` is None, where it is."""


@dataclass(frozen=True)
class WorkerChoice:
    """A number of workers and the reason in words."""

    workers: int
    because: str


@dataclass(frozen=True)
class Plan:
    """The plan: ``group_slots[g]`` are the slots of group ``g``, ``group_worker[g]`` the worker that serves it."""

    num_envs: int
    batch_size: int
    group_slots: tuple[tuple[int, ...], ...]
    group_worker: tuple[int, ...]

    @property
    def workers(self) -> int:
        """How many workers there are."""
        return max(self.group_worker) + 1

    @property
    def is_synchronous(self) -> bool:
        """Whether every batch holds every slot."""
        return self.batch_size == self.num_envs

    @cached_property
    def group_rows(self) -> tuple[npt.NDArray[np.int64], ...]:
        """The slots of each group as an array to index with."""
        return tuple(np.array(slots, np.int64) for slots in self.group_slots)

    @cached_property
    def even_groups(self) -> npt.NDArray[np.int64] | None:
        """The slots of each group as one array, where all groups have the same size."""
        return np.stack(self.group_rows) if len({len(slots) for slots in self.group_slots}) == 1 else None

    @cached_property
    def group_of(self) -> npt.NDArray[np.int64]:
        """The group of each slot."""
        group_of = np.empty(self.num_envs, np.int64)
        for group, slots in enumerate(self.group_rows):
            group_of[slots] = group
        return group_of

    @cached_property
    def worker_of(self) -> npt.NDArray[np.int64]:
        """The worker of each slot."""
        return np.array(self.group_worker, np.int64)[self.group_of]

    def groups_of(self, worker: int) -> tuple[int, ...]:
        """The groups a worker serves."""
        return tuple(g for g, w in enumerate(self.group_worker) if w == worker)

    def slots_of(self, worker: int) -> tuple[int, ...]:
        """The slots a worker serves."""
        return tuple(slot for g in self.groups_of(worker) for slot in self.group_slots[g])


def divide(count: int, parts: int) -> list[range]:
    """Divide ``count`` things into ``parts`` contiguous blocks whose sizes differ by one at most."""
    edges = [count * part // parts for part in range(parts + 1)]
    return [range(a, b) for a, b in pairwise(edges)]


def make_plan(num_envs: int, workers: int, groups: int | None, batch_size: int | None) -> Plan:
    """Assign slots to workers and groups; ``groups`` counts per worker.

    By default full batches use one group a worker, and smaller ones groups of one slot: truly the first that are ready.

    Raises:
        ConfigError: the numbers do not fit together; the message names what fits.
    """
    batch = num_envs if batch_size is None else batch_size
    _check_counts(num_envs, workers, groups, batch)
    blocks = divide(num_envs, workers)
    per_worker = groups if groups is not None else (1 if batch == num_envs else num_envs)
    group_slots: list[tuple[int, ...]] = []
    group_worker: list[int] = []
    for worker, block in enumerate(blocks):
        for part in divide(len(block), min(per_worker, len(block))):
            group_slots.append(tuple(block[i] for i in part))
            group_worker.append(worker)
    if batch < num_envs:
        _check_batch(batch, {len(g) for g in group_slots}, num_envs, workers)
    return Plan(num_envs, batch, tuple(group_slots), tuple(group_worker))


def choose_workers(num_envs: int, cores: int, free_bytes: int, probe: Probe) -> WorkerChoice:
    """How many workers pay, from cores, memory and the measured cost of a step."""
    room = max(1, int(free_bytes * MEMORY_SHARE / max(probe.rss_bytes, 1)))
    if probe.step_s is not None and probe.cpu_share < WAITING_SHARE:
        wanted = min(num_envs, math.ceil(cores / max(probe.cpu_share, 0.02)))
        reason = f"a step waits {1 - probe.cpu_share:.0%} of its time"
    elif probe.step_s is not None and num_envs * probe.step_s < 2 * SYNC_COST_S:
        wanted, reason = 1, f"{num_envs} steps of {probe.step_s * 1e6:.1f} us cost less than one more wake-up"
    else:
        cost = probe.unknown if probe.step_s is None else f"{probe.step_s * 1e6:.0f} us a step"
        wanted, reason = min(num_envs, cores), f"{cores} cores, {cost}"
    if room < wanted:
        return WorkerChoice(room, f"memory for {room} workers of {probe.rss_bytes / 1e6:.0f} MB")
    return WorkerChoice(wanted, reason)


def check_num_envs(num_envs: int) -> None:
    """Refuse a number of slots before anything is allocated for them.

    Raises:
        ConfigError: the number is below 1 or above ``MOST_ENVS``.
    """
    if num_envs < 1:
        raise ConfigError(f"num_envs={num_envs} must be at least 1")
    if num_envs > MOST_ENVS:
        raise ConfigError(f"num_envs={num_envs} must be at most {MOST_ENVS}")


def _check_counts(num_envs: int, workers: int, groups: int | None, batch: int) -> None:
    check_num_envs(num_envs)
    if not 1 <= workers <= num_envs:
        raise ConfigError(f"workers={workers} must be between 1 and num_envs={num_envs}")
    if groups is not None and groups < 1:
        raise ConfigError(f"groups={groups} must be at least 1 (it counts groups per worker)")
    if not 1 <= batch <= num_envs:
        raise ConfigError(f"batch_size={batch} must be between 1 and num_envs={num_envs}")


def _check_batch(batch: int, sizes: set[int], num_envs: int, workers: int) -> None:
    if len(sizes) > 1 or batch % next(iter(sizes)):
        raise ConfigError(
            f"batch_size={batch} is not a whole number of groups of {sorted(sizes)} slots; leave groups=None, or use "
            f"groups={-(-num_envs // workers)} for groups of one slot"
        )
