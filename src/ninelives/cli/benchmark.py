"""``ninelives benchmark ENV``: measures pools, or training with ``--train``; prints a table and a line to paste."""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from ninelives import host
from ninelives.cli.bench.bench_grid import (
    PoolMeasurement,
    PoolShape,
    best_of,
    line_to_paste,
    parse_bytes,
    shapes,
    sizes_to_try,
)
from ninelives.cli.exit_codes import FAILURE, SUCCESS
from ninelives.cli.target import env_spec
from ninelives.errors import ConfigError
from ninelives.spec.env import EnvSpec

if TYPE_CHECKING:
    from ninelives.cli.bench.bench_runner import BenchRunner

OF_FREE_MEMORY = 0.8
"""Share of the free memory that the workers may use; the rest is for other programs."""


@dataclass(frozen=True)
class BenchmarkCommand:
    """Measure an environment in pools of different shapes; print a table and a line to paste.

    More than one group means first-ready batches: recv() returns num_envs / groups slots. With --train, PPO is trained
    end to end for each number of environments, and the line to paste is a command.

    For example:
    $ ninelives benchmark CartPole-v1
    $ ninelives benchmark CartPole-v1 --train --num-envs 8 16 32
    $ ninelives benchmark mygame:make --num-envs 16 64 --workers 2 4 8 --memory-limit 4GB --seconds 60
    """

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """A Gymnasium id such as CartPole-v1, or module:factory."""

    env_kwargs: Annotated[tuple[str, ...], tyro.conf.arg(metavar="[KEY=VALUE ...]")] = ()
    """Keyword arguments of the environment; values are parsed as Python literals where possible."""

    rom: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """Your own ROM, for games that need one."""

    num_envs: tuple[int, ...] = ()
    """Numbers of environments to try; by default the choice of train --n-envs auto, half and twice that."""

    workers: tuple[int, ...] = ()
    """Numbers of worker processes to try; by default 1, one per core, and two per core."""

    groups: tuple[int, ...] = (1, 2)
    """Groups per worker to try."""

    memory_limit: Annotated[str | None, tyro.conf.arg(metavar="SIZE")] = None
    """Memory that the workers of one pool may use together, such as 4GB; by default 80 % of the free memory."""

    seconds: float = 20.0
    """Time for all measurements; configurations that do not fit are skipped."""

    train: bool = False
    """Measure PPO training end to end instead of random steps; the trainer chooses workers and groups."""

    config: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """With --train: YAML file with the settings of the run, as for ninelives train --config."""

    def run(self) -> int:
        """Measure and print."""
        if not self.seconds > 0:
            raise ConfigError(f"--seconds {self.seconds:g} must be greater than zero")
        return self._measure_training() if self.train else self._measure_pools()

    def _measure_training(self) -> int:
        from ninelives.cli.bench.train_bench import TrainBenchRunner, report

        kwargs = env_spec(self.env, self.env_kwargs, self.rom).kwargs
        runner = TrainBenchRunner.of(self.env, kwargs, self.config, self.seconds)
        runner.measure_all(self.num_envs or sizes_to_try(runner.config.env_spec))
        return report(runner)

    def _measure_pools(self) -> int:
        from ninelives.cli.bench.bare_loop import BareLoops
        from ninelives.cli.bench.bench_runner import BenchRunner

        if self.config is not None:
            raise ConfigError(f"--config {self.config} has training settings: add --train")
        spec, cores = env_spec(self.env, self.env_kwargs, self.rom), host.cores()
        limit = parse_bytes(self.memory_limit) if self.memory_limit else int(OF_FREE_MEMORY * host.free_bytes())
        every = shapes(self.num_envs or sizes_to_try(spec), self.workers or (1, cores, 2 * cores), self.groups)
        loops = BareLoops(spec, cores)
        try:
            runner = BenchRunner(spec, loops, limit, time.monotonic() + self.seconds)
            runner.measure_all(every)
        finally:
            loops.close()
        return _report(spec, runner, cores)


def _report(spec: EnvSpec, runner: BenchRunner, cores: int) -> int:
    from rich.console import Console

    if not runner.measured:
        smallest = min(size for _, _, size in runner.skipped)
        needs = f"the smallest configuration needs about {smallest / 1e6:,.0f} MB"
        print(f"nothing fits into {runner.memory_limit / 1e6:,.0f} MB: {needs}; raise --memory-limit", file=sys.stderr)
        return FAILURE
    best = best_of(runner.measured)
    limit = statistics.median(m.limit_steps_per_s for m in runner.measured)
    console = Console(highlight=False)
    console.print(_table(runner, best))
    console.print(f"limit: {limit:,.0f} steps/s, bare loops in {cores} processes, measured together with each row")
    print(line_to_paste(spec, best.shape))
    return SUCCESS


def _table(runner: BenchRunner, best: PoolMeasurement) -> Any:
    from rich.table import Table

    table = Table(title=runner.spec.label)
    for heading in ("num_envs", "workers", "groups", "batch", "steps/s", "of limit", "MB", "start s"):
        table.add_column(heading, justify="right")
    for m in runner.measured:
        numbers = (f"{m.steps_per_s:,.0f}", f"{m.ratio:.2f}", f"{m.workers_bytes / 1e6:,.0f}", f"{m.start_s:.2f}")
        table.add_row(*_shape(m.shape), *numbers, style="bold green" if m is best else "")
    for shape, reason, size in runner.skipped:
        table.add_row(*_shape(shape), reason, "", f"~{size / 1e6:,.0f}", "", style="dim")
    return table


def _shape(shape: PoolShape) -> tuple[str, ...]:
    return str(shape.num_envs), str(shape.workers), str(shape.groups), str(shape.batch_size)
