"""``ninelives benchmark ENV``: measures pools, or with ``--train`` training; prints a table and a line to paste."""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from ninelives import host
from ninelives.cli.bench.bench_grid import Config, Measurement, best_of, configs, line_to_paste, parse_bytes
from ninelives.cli.target import env_spec
from ninelives.errors import ConfigError
from ninelives.spec.env import EnvSpec

if TYPE_CHECKING:
    from ninelives.cli.bench.bench_runner import Series

OF_FREE_MEMORY = 0.8
"""Room for everything else that runs here."""


@dataclass(frozen=True)
class Benchmark:
    """Measure an environment in pools of different shapes; print a table and the line to paste.

    Groups above 1 mean first-ready batches: recv() returns num_envs / groups slots. With --train, PPO is trained from
    end to end for each number of environments, and the line to paste is a command.

    For example:
    $ ninelives benchmark CartPole-v1
    $ ninelives benchmark CartPole-v1 --train --num-envs 8 16 32
    $ ninelives benchmark mygame:make --num-envs 16 64 --workers 2 4 8 --memory-limit 4GB --seconds 60
    """

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """A Gymnasium id like CartPole-v1, or module:factory."""

    env_kwargs: Annotated[tuple[str, ...], tyro.conf.arg(metavar="[KEY=VALUE ...]")] = ()
    """Keyword arguments of the environment; values are read as Python if they can be."""

    rom: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """Your own ROM, for a game that needs one."""

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

    train: bool = False
    """Train PPO instead of stepping at random: steps/s end to end; workers and groups are chosen by the trainer."""

    config: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """With --train: a YAML file of the run to measure, as ninelives train takes it."""

    def run(self) -> int:
        """Measure and print."""
        if not self.seconds > 0:
            raise ConfigError(f"--seconds {self.seconds:g} must be greater than zero")
        return self._measure_training() if self.train else self._measure_pools()

    def _measure_training(self) -> int:
        from ninelives.cli.bench.train_bench import TrainSeries, report

        kwargs = env_spec(self.env, self.env_kwargs, self.rom).kwargs
        series = TrainSeries.of(self.env, kwargs, self.config, self.seconds)
        series.measure_all(self.num_envs)
        return report(series)

    def _measure_pools(self) -> int:
        from ninelives.cli.bench.bare_loop import BareLoops
        from ninelives.cli.bench.bench_runner import Series

        if self.config is not None:
            raise ConfigError(f"--config {self.config} is about training: say --train too")
        spec, cores = env_spec(self.env, self.env_kwargs, self.rom), host.cores()
        every = configs(self.num_envs, self.workers or (1, cores, 2 * cores), self.groups)
        limit = parse_bytes(self.memory_limit) if self.memory_limit else int(OF_FREE_MEMORY * host.free_bytes())
        loops = BareLoops(spec, cores)
        try:
            series = Series(spec, loops, limit, time.monotonic() + self.seconds)
            series.measure_all(every)
        finally:
            loops.close()
        return _report(spec, series, cores)


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
