"""Measures pools of different shapes against bare loops, within a time limit and a memory limit."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium.vector.utils import batch_space

from ninelives import host
from ninelives.cli.bench.bare_loop import BareLoops
from ninelives.cli.bench.bench_grid import MemoryModel, PoolMeasurement, PoolShape
from ninelives.pool.batch import Batch
from ninelives.pool.pool import Pool
from ninelives.spec.env import EnvSpec

WINDOWS = 3
"""A shape's speed is the median of this many windows."""

SHORTEST_S = 0.1
"""A shorter window would measure the clock."""

LIMIT_SHARE = 0.25
"""Share of each shape's time that goes to the bare loops it is compared with."""

BATCHES = 64
"""Batches of random actions, sampled before the clock starts."""


@dataclass
class BenchRunner:
    """One run of the benchmark."""

    spec: EnvSpec
    loops: BareLoops
    memory_limit: int
    deadline_s: float
    measured: list[PoolMeasurement] = field(default_factory=list)
    skipped: list[tuple[PoolShape, str, float]] = field(default_factory=list)

    def measure_all(self, every: list[PoolShape]) -> None:
        """Measure in order; each shape gets its share of the remaining time."""
        alone, copy = workers_bytes(self.loops.pool) / self.loops.pool.workers, self.loops.copy_bytes()
        model = MemoryModel(alone, alone if copy is None else copy)
        start_s = 0.0
        for done, shape in enumerate(every):
            left, guess = self.deadline_s - time.monotonic(), model.guess(shape)
            if guess > self.memory_limit:
                self.skipped.append((shape, "too big", guess))
            elif self.measured and left <= 0:
                self.skipped.append((shape, "no time", guess))
            else:
                _progress(f"{done + 1}/{len(every)}: {shape.num_envs} environments, {shape.workers} workers")
                self._measure(shape, max(left / (len(every) - done) - start_s, SHORTEST_S * WINDOWS), model)
                start_s = self.measured[-1].start_s if self.measured else start_s

    def _measure(self, shape: PoolShape, seconds: float, model: MemoryModel) -> None:
        limit = self.loops.steps_per_s(max(SHORTEST_S, LIMIT_SHARE * seconds))
        began = time.monotonic()
        with Pool(
            self.spec, shape.num_envs, workers=shape.workers, groups=shape.groups, batch_size=shape.batch_size
        ) as pool:
            start_s, size = time.monotonic() - began, workers_bytes(pool)
            if size > self.memory_limit:
                self.skipped.append((shape, "too big", size))
                return
            speed = pool_steps_per_s(pool, (1 - LIMIT_SHARE) * seconds)
            size = workers_bytes(pool)
        model.learn(shape, size)
        self.measured.append(PoolMeasurement(shape, speed, limit, size, start_s))


def pool_steps_per_s(pool: Pool, seconds: float) -> float:
    """Speed with random actions: the median of a few windows after a short warm-up."""
    space = batch_space(pool.action_space, pool.batch_size)
    batches = [space.sample() for _ in range(BATCHES)]
    pool.reset(seed=0)
    turn = _full_batches(pool, batches) if pool.batch_size == pool.num_envs else _first_ready(pool, batches)
    window = max(SHORTEST_S, seconds / (WINDOWS + 0.5))
    _speed(turn, window / 2)
    return statistics.median(_speed(turn, window) for _ in range(WINDOWS))


def _full_batches(pool: Pool, batches: list[Any]) -> Callable[[int], int]:
    def turn(number: int) -> int:
        return _true_rows(pool.step(batches[number % BATCHES]))

    return turn


def _first_ready(pool: Pool, batches: list[Any]) -> Callable[[int], int]:
    pool.send(batch_space(pool.action_space, pool.num_envs).sample())

    def turn(number: int) -> int:
        batch = pool.recv()
        pool.send(batches[number % BATCHES], batch.slots)
        return _true_rows(batch)

    return turn


def _true_rows(batch: Batch) -> int:
    """Valid rows only: masked rows were not stepped, and an environment that breaks must not look fast."""
    return int(np.count_nonzero(batch.valid))


def _speed(turn: Callable[[int], int], seconds: float) -> float:
    steps, number, began = 0, 0, time.perf_counter()
    while (took := time.perf_counter() - began) < seconds:
        steps += turn(number)
        number += 1
    return steps / took


def workers_bytes(pool: Pool) -> int:
    """Memory of all workers; shared pages are counted once."""
    return sum(host.proportional_bytes(pid) for pid in pool.worker_pids if pid is not None)


def _progress(shape: str) -> None:
    print(f"measuring {shape}", file=sys.stderr, flush=True)
