"""Which pool shapes to measure, which fit into memory, and which one to recommend.

Pure arithmetic, but for ``sizes_to_try``: how many environments are sensible is ``train.sizing``'s question.
"""

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
class PoolShape:
    """The shape of one pool; more than one group means first-ready batches of ``num_envs / groups``."""

    num_envs: int
    workers: int
    groups: int

    @property
    def batch_size(self) -> int:
        """Slots per batch."""
        return self.num_envs // self.groups


@dataclass(frozen=True)
class PoolMeasurement:
    """How one shape performed."""

    shape: PoolShape
    steps_per_s: float
    limit_steps_per_s: float
    workers_bytes: int
    start_s: float

    @property
    def ratio(self) -> float:
        """Speed relative to the bare loops measured right before."""
        return self.steps_per_s / self.limit_steps_per_s if self.limit_steps_per_s else 0.0


@dataclass
class MemoryModel:
    """Estimates the memory of a shape from that of a worker with one environment and of one more copy in it."""

    alone_bytes: float
    copy_bytes: float

    def learn(self, shape: PoolShape, workers_bytes: float) -> None:
        """Correct the cost of a copy by a measured shape with several slots per worker."""
        more = shape.num_envs - shape.workers
        if more > 0:
            self.copy_bytes = max(0.0, workers_bytes - shape.workers * self.alone_bytes) / more

    def guess(self, shape: PoolShape) -> float:
        """Bytes of all workers together."""
        return shape.workers * self.alone_bytes + (shape.num_envs - shape.workers) * self.copy_bytes


def sizes_to_try(spec: EnvSpec) -> tuple[int, ...]:
    """Numbers of environments: what the trainer would choose (it measures one copy), half of it and twice it."""
    from ninelives.train.sizing import choose_for

    chosen = choose_for(spec).n_envs
    return max(1, chosen // 2), chosen, 2 * chosen


def shapes(num_envs: Iterable[int], workers: Iterable[int], groups: Iterable[int]) -> list[PoolShape]:
    """All combinations that divide evenly, small ones first.

    Raises:
        ConfigError: there is none.
    """
    every = [
        PoolShape(n, w, g)
        for n in sorted(set(num_envs))
        for w in sorted(set(workers))
        for g in sorted(set(groups))
        if 1 <= w <= n and g >= 1 and (g == 1 or n % (w * g) == 0)
    ]
    if not every:
        raise ConfigError(
            "no configuration can be measured: --workers must be between 1 and --num-envs, and for first-ready batches "
            "--num-envs must be a multiple of workers x groups"
        )
    return every


def best_of(measurements: Sequence[PoolMeasurement]) -> PoolMeasurement:
    """The fastest, or the smallest of those that are equally fast."""
    fastest = max(m.steps_per_s for m in measurements)
    good = [m for m in measurements if m.steps_per_s >= AS_GOOD * fastest]
    return min(good, key=lambda m: (m.workers_bytes, m.shape.num_envs))


def line_to_paste(spec: EnvSpec, shape: PoolShape) -> str:
    """The pool as Python code."""
    first_ready = f", groups={shape.groups}, batch_size={shape.batch_size}" if shape.groups > 1 else ""
    return f"ninelives.Pool({as_code(spec)}, num_envs={shape.num_envs}, workers={shape.workers}{first_ready})"


def parse_bytes(text: str) -> int:
    """``"4GB"``, ``"512 MiB"``, ``"2000000000"``.

    Raises:
        ConfigError: it is not a size.
    """
    found = _SIZE.match(text.strip())
    if not found or not float(found["number"]):
        raise ConfigError(f"--memory-limit {text!r} is not a size; for example: 4GB, 512MiB")
    power = " kmgt".index(found["unit"].lower()) if found["unit"] else 0
    return int(float(found["number"]) * (1024**power if found["binary"] else _UNITS[found["unit"].lower()]))
