"""Which configurations to measure, which fit into memory, and which is the one to paste. Pure arithmetic."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ninelives.cli.target import as_code
from ninelives.errors import ConfigError
from ninelives.spec.env import EnvSpec
from ninelives.train.sizing import AS_GOOD

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_SIZE = re.compile(r"^(?P<number>\d+(\.\d+)?)\s*(?P<unit>[kmgt]?)(?P<binary>i?)b?$", re.IGNORECASE)


@dataclass(frozen=True)
class Config:
    """One pool: ``groups`` above one take first-ready batches of ``num_envs / groups``."""

    num_envs: int
    workers: int
    groups: int

    @property
    def batch_size(self) -> int:
        """Slots per batch."""
        return self.num_envs // self.groups


@dataclass(frozen=True)
class Measurement:
    """What a configuration did."""

    config: Config
    steps_per_s: float
    limit_steps_per_s: float
    workers_bytes: int
    start_s: float

    @property
    def ratio(self) -> float:
        """Of what bare loops did right before."""
        return self.steps_per_s / self.limit_steps_per_s if self.limit_steps_per_s else 0.0


@dataclass
class MemoryModel:
    """Guesses a configuration's memory: a worker with one environment, and one more copy beside it."""

    alone_bytes: float
    copy_bytes: float

    def learn(self, config: Config, workers_bytes: float) -> None:
        """A measured configuration with several slots a worker tells what one more copy really costs."""
        more = config.num_envs - config.workers
        if more > 0:
            self.copy_bytes = max(0.0, workers_bytes - config.workers * self.alone_bytes) / more

    def guess(self, config: Config) -> float:
        """Bytes of all workers together."""
        return config.workers * self.alone_bytes + (config.num_envs - config.workers) * self.copy_bytes


def configs(num_envs: Iterable[int], workers: Iterable[int], groups: Iterable[int]) -> list[Config]:
    """Everything that can be dealt evenly, small ones first.

    Raises:
        ConfigError: nothing can.
    """
    every = [
        Config(n, w, g)
        for n in sorted(set(num_envs))
        for w in sorted(set(workers))
        for g in sorted(set(groups))
        if 1 <= w <= n and g >= 1 and (g == 1 or n % (w * g) == 0)
    ]
    if not every:
        raise ConfigError(
            "no configuration can be measured: --workers must be between 1 and --num-envs, and --num-envs a multiple "
            "of workers x groups for first-ready batches"
        )
    return every


def best_of(measurements: Sequence[Measurement]) -> Measurement:
    """The fastest, or the smallest of those that are as good."""
    fastest = max(m.steps_per_s for m in measurements)
    good = [m for m in measurements if m.steps_per_s >= AS_GOOD * fastest]
    return min(good, key=lambda m: (m.workers_bytes, m.config.num_envs))


def line_to_paste(spec: EnvSpec, config: Config) -> str:
    """The chosen pool as code."""
    first_ready = f", groups={config.groups}, batch_size={config.batch_size}" if config.groups > 1 else ""
    return f"ninelives.Pool({as_code(spec)}, num_envs={config.num_envs}, workers={config.workers}{first_ready})"


def parse_bytes(text: str) -> int:
    """``"4GB"``, ``"512 MiB"``, ``"2000000000"``.

    Raises:
        ConfigError: not a size.
    """
    found = _SIZE.match(text.strip())
    if not found or not float(found["number"]):
        raise ConfigError(f"--memory-limit {text!r} is not a size; for example: 4GB, 512MiB")
    power = " kmgt".index(found["unit"].lower()) if found["unit"] else 0
    return int(float(found["number"]) * (1024**power if found["binary"] else _UNITS[found["unit"].lower()]))
