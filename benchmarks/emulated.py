"""Emulators: what undrawn frames bring, what the second core brings, how much memory a game takes.

Every ratio is one of windows that were run in turn, one right after the other. Rounds can be taken at any time, so that
they lie all over a long run: the host has slow minutes, and a speed should not be that of one of them.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import ninelives
from procfs import pss_mb, tree
from rounds import WARM_S, Child, SystemFailedError, fresh, together

OLD_LIMIT = 35.0
"""Steps per second that users of mGBA were told is the most there is."""

LOOPS = {
    "errand": ("errand",),
    "errand_drawn": ("errand_drawn",),
    "errand_both": ("errand", "errand"),
    "lantern": ("lantern",),
    "lantern_nes_py": ("lantern_nes_py",),
}
"""Bare loops that are run at the same time, by the name of what they show."""


@dataclass
class Emulated:
    """Steps per second of every arrangement, round by round, and megabytes.

    Attributes:
        rates: by the names of ``LOOPS``; one that failed is missing.
        worker_mb: a worker with one mGBA slot.
        slot_mb: an added mGBA slot in a worker.
        errors: why something is missing.
    """

    rates: dict[str, list[float]] = field(default_factory=dict)
    worker_mb: float | None = None
    slot_mb: float | None = None
    errors: dict[str, str] = field(default_factory=dict)

    def ratio(self, one: str, other: str) -> float | None:
        """Median over rounds."""
        if one not in self.rates or other not in self.rates:
            return None
        return statistics.median(a / b for a, b in zip(self.rates[one], self.rates[other], strict=True))

    def rate(self, name: str) -> float | None:
        """Median over rounds."""
        return statistics.median(self.rates[name]) if name in self.rates else None


class Stage:
    """Bare loops that are open and wait, until ``close``; one that cannot be opened is an error in ``found``."""

    def __init__(self) -> None:
        self.found = Emulated()
        self._rounds = 0
        self._groups = {name: _opened(name, workloads, self.found) for name, workloads in LOOPS.items()}

    def round(self, window_s: float) -> None:
        """Each of them for a moment, in turn."""
        names = sorted(set(self._groups) - set(self.found.errors))
        for name in _turned(names, self._rounds):
            self.found.rates.setdefault(name, []).append(together(self._groups[name], window_s).rate)
        self._rounds += 1

    def close(self) -> None:
        """End all of them."""
        for child in (child for group in self._groups.values() for child in group):
            child.end()


def summarise(found: Emulated, say: Callable[[str], None]) -> None:
    """The speeds in a few lines."""
    for name in LOOPS:
        rate = found.rate(name)
        say(f"  {name:<42}{rate:>12,.0f} steps/s" if rate else f"  {name}: {found.errors.get(name)}")


def _turned(names: Sequence[str], turn: int) -> list[str]:
    first = turn % len(names) if names else 0
    return [*names[first:], *names[:first]]


def _opened(name: str, workloads: Sequence[str], found: Emulated) -> list[Child]:
    children: list[Child] = []
    try:
        for workload in workloads:
            children.append(fresh("bare", workload, 1, {}, WARM_S)[0])  # noqa: PERF401, one that fails ends the others
    except SystemFailedError as failure:
        found.errors[name] = str(failure)
    return children


def measure_memory(found: Emulated) -> None:
    """What workers take; nothing else may be measured meanwhile."""
    try:
        one, many = _workers_mb(num_envs=4, workers=4), _workers_mb(num_envs=20, workers=4)
    except ninelives.NinelivesError as error:
        found.errors["memory"] = str(error).splitlines()[0]
        return
    found.worker_mb, found.slot_mb = one / 4, (many - one) / 16


def _workers_mb(num_envs: int, workers: int) -> float:
    """What all workers take together, after some steps; the fork server's own memory is shared among them."""
    spec = ninelives.EnvSpec("workloads:make", {"name": "errand"})
    with ninelives.Pool(spec, num_envs, workers=workers) as pool:
        pool.reset(seed=0)
        for turn in range(50):
            pool.step([turn % 4] * num_envs)
        return pss_mb([pid for root in pool.worker_pids if root is not None for pid in tree(root)])


if __name__ == "__main__":
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    stage = Stage()
    for _ in range(5):
        stage.round(1.5)
    stage.close()
    summarise(stage.found, print)
    measure_memory(stage.found)
    print(f"worker {stage.found.worker_mb} MB, slot {stage.found.slot_mb} MB", stage.found.errors)
