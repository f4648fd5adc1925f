"""What healing costs while nothing breaks, and how long it takes when something does.

The price is a ratio of a few percent, so two pools take turns in short windows: whatever the machine does to one it
does to the other. A window is so many batches, not so much time: with the same seeds and actions both do the same work,
also where episodes end and steps are of all lengths. Each has a process of its own: of two in one process the first to
be opened was the faster one. Several pairs of pools are opened one after the other, both with as many workers as the
first one chose.
"""

from __future__ import annotations

import os
import signal
import statistics
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import ninelives
from cells import CELLS, Cell, Entry
from ninelives.events import SlotHealed
from rounds import WARM_S, Child, fresh

OPENED = 6
PAIRS = 360
"""Of windows, over all pools that are opened."""

WINDOW_S = 0.025

KILLS = 16
CALM_STEPS = 40
"""Steps between two kills; longer than the shortest interval between snapshots."""


@dataclass
class Price:
    """Steps per second with healing, in units of those without, pair by pair."""

    cell: str
    entry: str
    ratios: list[float] = field(default_factory=list)

    @property
    def error(self) -> float:
        """Standard error of the median, from the quartiles, as for a bell-shaped spread."""
        low, _, high = statistics.quantiles(self.ratios, n=4)
        return 0.93 * (high - low) / len(self.ratios) ** 0.5


@dataclass
class Recovery:
    """Seconds from a worker's death until its slots were back, slot by slot."""

    what: str
    seconds: list[float] = field(default_factory=list)
    replayed: list[int] = field(default_factory=list)


def prices(cells: list[Cell], pairs: int, window_s: float) -> list[Price]:
    """The price on every workload, in every mode that the cells have of it."""
    return [
        _price(cell, entry, pairs, window_s) for cell in cells for entry in cell.entries if entry.system == "ninelives"
    ]


def _price(cell: Cell, entry: Entry, pairs: int, window_s: float) -> Price:
    price, settings = Price(cell.name, entry.key), dict(entry.settings)
    for opened in range(OPENED):
        pools: dict[str, Child] = {}
        try:
            for mode in ("cut", "heal") if opened % 2 else ("heal", "cut"):
                with_mode = {**settings, "on_fault": mode}
                pools[mode] = fresh(entry.system, cell.workload, cell.num_envs, with_mode, WARM_S)[0]
                settings.setdefault("workers", int(pools[mode].request("workers")["workers"]))
            batches = _batches(pools["cut"], window_s)
            _align(list(pools.values()))
            price.ratios += [_ratio(pools, turn, batches) for turn in range(-(-pairs // OPENED))]
        finally:
            for child in pools.values():
                child.end()
    return price


def _batches(pool: Child, window_s: float) -> int:
    """How many it takes in a window."""
    before = pool.request("turn")["turn"]
    pool.request("run", seconds=window_s)
    return max(1, int(pool.request("turn")["turn"] - before))


def _align(pools: list[Child]) -> None:
    """Whoever took fewer batches so far catches up: from here on all do the same work at the same time."""
    turns = [int(pool.request("turn")["turn"]) for pool in pools]
    for pool, turn in zip(pools, turns, strict=True):
        pool.request("count", batches=max(turns) - turn)


def _ratio(pools: dict[str, Child], turn: int, batches: int) -> float:
    """Steps per second of the one that heals, of those of the one that cuts; they take turns at being first."""
    order = ("cut", "heal") if turn % 2 else ("heal", "cut")
    seconds = {mode: float(pools[mode].request("count", batches=batches)["seconds"]) for mode in order}
    return seconds["cut"] / seconds["heal"]


def recoveries(kills: int) -> list[Recovery]:
    """CartPole from the fork server; Pong from snapshots; Pong with a spare. A worker brings its slots back in turn."""
    cartpole, pong, errand = "CartPole-v1", "ale_py:ALE/Pong-v5", "ninelives/Errand-v0"
    return [
        _recovery("mGBA, snapshots, a slot a worker", errand, 8, kills),
        _recovery("CartPole, forkserver", cartpole, 4, kills),
        _recovery("Pong, snapshots", pong, 4, kills),
        _recovery("Pong, snapshots and a spare", pong, 4, kills, spares=1),
        _recovery("CartPole, forkserver, four slots a worker", cartpole, 2, kills),
        _recovery("Pong, snapshots, four slots a worker", pong, 2, kills),
        _recovery("Pong, snapshots and a spare, four slots a worker", pong, 2, kills, spares=1),
    ]


def _recovery(what: str, env: str, workers: int, kills: int, **settings: Any) -> Recovery:
    found = Recovery(what)
    budgets = {"max_restarts": 10**6, "max_restarts_per_slot": 10**6}
    with ninelives.Pool(env, 8, workers=workers, **budgets, **settings) as pool:
        draw = np.random.default_rng(0)
        pool.reset(seed=0)
        for kill in range(kills):
            pids = [pid for pid in pool.worker_pids if pid is not None]
            for _ in range(CALM_STEPS):
                pool.step(draw.integers(0, 2, 8))
            os.kill(pids[kill % len(pids)], signal.SIGKILL)
            _await_calm(pool, draw, settings)
        healed = [event for event in pool.events if isinstance(event, SlotHealed)]
    found.seconds, found.replayed = [event.seconds for event in healed], [event.replayed for event in healed]
    return found


def _await_calm(pool: Any, draw: np.random.Generator, settings: dict[str, Any]) -> None:
    """One step, which waits for the healing; then, with spares, until the next one is built, as it would be by then."""
    pool.step(draw.integers(0, 2, 8))
    end = time.monotonic() + (2.0 if settings else 0.0)
    while time.monotonic() < end:
        pool.step(draw.integers(0, 2, 8))
        time.sleep(0.01)


def median_ms(recovery: Recovery) -> float | None:
    """The median in milliseconds."""
    return 1e3 * statistics.median(recovery.seconds) if recovery.seconds else None


if __name__ == "__main__":
    for price in prices(list(CELLS), PAIRS, WINDOW_S):
        median = statistics.median(price.ratios)
        print(f"{price.cell:14} {price.entry:14} {median:.3f} +- {price.error:.3f}", flush=True)
    for recovery in recoveries(KILLS):
        print(f"{recovery.what:30} {median_ms(recovery):.0f} ms", flush=True)
