"""``rookery benchmark ENV``: measures workers x groups x num_envs and prints a table and the line to paste."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import tyro

from rookery.cli.bareloop import BareLoops
from rookery.cli.grid import Config, Measurement, MemoryModel, best_of, configs, line_to_paste, parse_bytes
from rookery.cli.target import env_spec
from rookery.errors import ConfigError
from rookery.pool.pool import Pool
from rookery.spec.env import EnvSpec
from rookery.supervise import host

WINDOWS = 3
"""A configuration's speed is the median of so many windows."""

SHORTEST_S = 0.1
"""A window shorter than this measures the clock."""

LIMIT_SHARE = 0.25
"""Of the time of each configuration, how much goes to the bare loops beside it."""

BATCHES = 64
"""Batches of random actions, sampled before the clock runs."""

OF_FREE_MEMORY = 0.8


@dataclass(frozen=True)
class Benchmark:
    """Measure an environment in pools of different shapes; print a table and the line to paste.

    Groups above 1 mean first-ready batches: recv() returns num_envs / groups slots.

    For example:
    $ rookery benchmark CartPole-v1
    $ rookery benchmark mygame:make --num-envs 16 64 --workers 2 4 8 --memory-limit 4GB --seconds 60
    """

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """A Gymnasium id like CartPole-v1, or module:factory."""

    env_kwargs: Annotated[tuple[str, ...], tyro.conf.arg(metavar="[KEY=VALUE ...]")] = ()
    """Keyword arguments of the environment; values are read as Python if they can be."""

    num_envs: tuple[int, ...] = (8, 32)
    """Numbers of environments to try."""

    workers: tuple[int, ...] = ()
    """Numbers of worker processes to try; by default 1, as many as cores, and twice that."""

    groups: tuple[int, ...] = (1, 2)
    """Groups per worker to try."""

    memory_limit: Annotated[str | None, tyro.conf.arg(metavar="SIZE")] = None
    """What the workers of one pool may take together, like 4GB; by default 80 % of the free memory."""

    seconds: float = 20.0
    """Time for everything; what does not fit is not measured."""

    def run(self) -> int:
        """Measure and print."""
        if not self.seconds > 0:
            raise ConfigError(f"--seconds {self.seconds:g} must be greater than zero")
        spec, cores = env_spec(self.env, self.env_kwargs), host.cores()
        every = configs(self.num_envs, self.workers or (1, cores, 2 * cores), self.groups)
        limit = parse_bytes(self.memory_limit) if self.memory_limit else int(OF_FREE_MEMORY * host.free_bytes())
        loops = BareLoops(spec, cores)
        try:
            series = Series(spec, loops, limit, time.monotonic() + self.seconds)
            series.measure_all(every)
        finally:
            loops.close()
        return _report(spec, series, cores)


@dataclass
class Series:
    """One run of the benchmark."""

    spec: EnvSpec
    loops: BareLoops
    memory_limit: int
    deadline_s: float
    measured: list[Measurement] = field(default_factory=list)
    skipped: list[tuple[Config, str, float]] = field(default_factory=list)

    def measure_all(self, every: list[Config]) -> None:
        """In order, each with its share of the time that is left."""
        alone, copy = workers_bytes(self.loops.pool) / self.loops.pool.workers, self.loops.copy_bytes()
        model = MemoryModel(alone, alone if copy is None else copy)
        start_s = 0.0
        for done, config in enumerate(every):
            left, guess = self.deadline_s - time.monotonic(), model.guess(config)
            if guess > self.memory_limit:
                self.skipped.append((config, "too big", guess))
            elif self.measured and left <= 0:
                self.skipped.append((config, "no time", guess))
            else:
                _progress(f"{done + 1}/{len(every)}: {config.num_envs} environments, {config.workers} workers")
                self._measure(config, max(left / (len(every) - done) - start_s, SHORTEST_S * WINDOWS), model)
                start_s = self.measured[-1].start_s if self.measured else start_s

    def _measure(self, config: Config, seconds: float, model: MemoryModel) -> None:
        limit = self.loops.steps_per_s(max(SHORTEST_S, LIMIT_SHARE * seconds))
        began = time.monotonic()
        with Pool(
            self.spec, config.num_envs, workers=config.workers, groups=config.groups, batch_size=config.batch_size
        ) as pool:
            start_s, size = time.monotonic() - began, workers_bytes(pool)
            if size > self.memory_limit:
                self.skipped.append((config, "too big", size))
                return
            speed = pool_steps_per_s(pool, (1 - LIMIT_SHARE) * seconds)
            size = workers_bytes(pool)
        model.learn(config, size)
        self.measured.append(Measurement(config, speed, limit, size, start_s))


def pool_steps_per_s(pool: Pool, seconds: float) -> float:
    """A random policy; the median of a few windows after a short one to warm up."""
    from gymnasium.vector.utils import batch_space

    space = batch_space(pool.action_space, pool.batch_size)
    batches = [space.sample() for _ in range(BATCHES)]
    pool.reset(seed=0)
    turn = _full_batches(pool, batches) if pool.batch_size == pool.num_envs else _first_ready(pool, batches)
    window = max(SHORTEST_S, seconds / (WINDOWS + 0.5))
    _speed(turn, window / 2)
    return statistics.median(_speed(turn, window) for _ in range(WINDOWS))


def _full_batches(pool: Pool, batches: list[Any]) -> Callable[[int], int]:
    def turn(number: int) -> int:
        return len(pool.step(batches[number % BATCHES]))

    return turn


def _first_ready(pool: Pool, batches: list[Any]) -> Callable[[int], int]:
    from gymnasium.vector.utils import batch_space

    pool.send(batch_space(pool.action_space, pool.num_envs).sample())

    def turn(number: int) -> int:
        batch = pool.recv()
        pool.send(batches[number % BATCHES], batch.slots)
        return len(batch)

    return turn


def _speed(turn: Callable[[int], int], seconds: float) -> float:
    steps, number, began = 0, 0, time.perf_counter()
    while (took := time.perf_counter() - began) < seconds:
        steps += turn(number)
        number += 1
    return steps / took


def workers_bytes(pool: Pool) -> int:
    """Memory of all workers; pages that several share are counted once."""
    return sum(_proportional_bytes(pid) for pid in pool.worker_pids if pid is not None)


def _proportional_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return host.resident_bytes(pid)


def _report(spec: EnvSpec, series: Series, cores: int) -> int:
    from rich.console import Console

    if not series.measured:
        smallest = min(size for _, _, size in series.skipped)
        words = f"the smallest configuration takes about {smallest / 1e6:,.0f} MB"
        print(f"nothing fits into {series.memory_limit / 1e6:,.0f} MB: {words}; raise --memory-limit", file=sys.stderr)
        return 1
    best = best_of(series.measured)
    limit = statistics.median(m.limit_steps_per_s for m in series.measured)
    console = Console(highlight=False)
    console.print(_table(series, best))
    console.print(f"limit: {limit:,.0f} steps/s, bare loops in {cores} processes, measured beside each row")
    print(line_to_paste(spec, best.config))
    return 0


def _table(series: Series, best: Measurement) -> Any:
    from rich.table import Table

    table = Table(title=series.spec.label)
    for heading in ("num_envs", "workers", "groups", "batch", "steps/s", "of limit", "MB", "start s"):
        table.add_column(heading, justify="right")
    for m in series.measured:
        numbers = (f"{m.steps_per_s:,.0f}", f"{m.ratio:.2f}", f"{m.workers_bytes / 1e6:,.0f}", f"{m.start_s:.2f}")
        table.add_row(*_shape(m.config), *numbers, style="bold green" if m is best else "")
    for config, reason, size in series.skipped:
        table.add_row(*_shape(config), reason, "", f"~{size / 1e6:,.0f}", "", style="dim")
    return table


def _shape(config: Config) -> tuple[str, ...]:
    return str(config.num_envs), str(config.workers), str(config.groups), str(config.batch_size)


def _progress(words: str) -> None:
    print(f"measuring {words}", file=sys.stderr, flush=True)
