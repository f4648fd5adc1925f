"""``make soak-faults``: twenty minutes of faults, one a second, compared row by row with an undisturbed pool.

A random mixture of kills, stops, segfaults and exceptions (see ``weather``) hits a pool that heals. It fails if a row
differs or is cut, if memory or descriptors grow, if the event log exceeds its bound, or if anything is left behind.

Memory is what processes hold without a file behind it, looked at once a second: the median of a fifth of the run after
the warm-up is compared with that of the last fifth. Descriptors are counted while nothing is under way.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ninelives
from ninelives.pool.eventlog import EVENTS_FILE, event_files
from ninelives.testing import leftovers
from ninelives.testing.chaos_report import EventCounts, Percentiles
from ninelives.testing.paired_run import Comparison, PairedPool, PairedRun
from ninelives.view.jsonl import LARGEST_BYTES, JsonlSink
from procfs import own_mb, parent_of
from weather import BREAKS, KINDS, TAKEN, Weather, Weathered, new_flags

EPISODE_STEPS, STEP_S = 400, 0.0005
"""Replays are long enough to be hit by faults themselves."""

NO_LIMIT = 10**6
SETTINGS: dict[str, Any] = {
    "step_timeout_s": 1.0, "import_timeout_s": 5.0, "construct_timeout_s": 5.0, "reset_timeout_s": 5.0,
    "max_restarts": NO_LIMIT, "max_restarts_per_slot": NO_LIMIT, "restart_wait_s": 1e6, "backoff_s": 0.0,
}  # fmt: skip
"""Short deadlines find stopped workers soon; restart budgets would rightly end a run like this."""

SMALL_LOG_BYTES = 1 << 17
"""The events also go to a log that is rotated at this size: the usual size is not reached in twenty minutes."""

LOOK_EVERY_S = 1.0
WARM_PART = 0.3
"""By then the pool holds its 2,000 latest events in memory, as many as it ever keeps."""

MOST_MB = {"program": 4.0, "keeper": 1.0, "workers": 2.0}
"""Growth from warm-up to end that counts as flat; for workers, of each of them."""


@dataclass(frozen=True)
class Fact:
    """One line of the report."""

    what: str
    found: str
    bound: str = ""
    holds: bool = True


@dataclass
class Memory:
    """Memory of processes at each look, in MB; of workers, the average of those that live."""

    program: list[float] = field(default_factory=list)
    keeper: list[float] = field(default_factory=list)
    workers: list[float] = field(default_factory=list)

    def look(self, keeper: int, workers: list[int]) -> None:
        """Look once."""
        of_program, of_keeper = own_mb(os.getpid()), own_mb(keeper)
        of_workers = [size for pid in workers if (size := own_mb(pid)) is not None]
        if of_program is not None and of_keeper is not None and of_workers:
            self.program.append(of_program)
            self.keeper.append(of_keeper)
            self.workers.append(statistics.fmean(of_workers))


def main() -> int:
    args = _arguments()
    with tempfile.TemporaryDirectory(prefix="soak-") as place:
        tempfile.tempdir = place  # what is left behind there is ours
        before = _things()
        run_dir = Path(args.run_dir or place, "run")
        facts = [*_soak(args, run_dir, Path(place)), *_of_logs(run_dir, Path(place))]
        left = leftovers.await_none(lambda: _things() - before, within_s=2.0)
    facts.append(Fact("left behind", ", ".join(map(str, left)) or "nothing", "nothing", not left))
    return _report(facts)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1200.0, help="how long faults come (default 1200)")
    parser.add_argument("--every", type=float, default=1.0, help="seconds from fault to fault (default 1)")
    parser.add_argument("--slots", type=int, default=8, help="environments (default 8)")
    parser.add_argument("--workers", type=int, default=2, help="worker processes (default 2)")
    parser.add_argument("--batch-size", type=int, help="slots of a batch (default: all)")
    parser.add_argument("--seed", type=int, default=1, help="seed of faults, environments and actions (default 1)")
    parser.add_argument("--start-method", default="forkserver", help="how workers are started (default forkserver)")
    parser.add_argument("--run-dir", help="keep events and logs in RUN_DIR/run")
    return parser.parse_args()


# ---- the run ---------------------------------------------------------------------------------------------------------


def _soak(args: argparse.Namespace, run_dir: Path, place: Path) -> list[Fact]:
    shape = {name: getattr(args, name) for name in ("workers", "batch_size", "start_method")}
    flags, counts, memory = new_flags(place / "flags", args.slots), EventCounts(), Memory()
    new_flags(place / "no-flags", args.slots)
    small_log = JsonlSink(place / EVENTS_FILE, SMALL_LOG_BYTES)
    with (
        ninelives.Pool(_env(place / "no-flags"), args.slots, **shape) as calm,
        ninelives.Pool(_env(place / "flags"), args.slots, **shape, **SETTINGS, run_dir=run_dir,
                       sinks=[counts, small_log]) as pool,
    ):  # fmt: skip
        slots_of = [pool.slots_of(worker) for worker in range(pool.workers)]
        weather = Weather(flags, lambda: pool.worker_pids, slots_of, args.seconds, args.every, args.seed)
        pair = (PairedPool(each, args.seed, is_disabled=False) for each in (pool, calm))
        run = PairedRun(*pair, weather, Comparison(args.slots, (), counts.broken))
        descriptors, began = _descriptors(pool), time.monotonic()
        weather.start()
        try:
            run.run(1, args.seed, lambda: _look(pool, memory, began, weather))
        finally:
            weather.close()
        facts = [*_of_rows(run, counts, time.monotonic() - began), *_of_faults(weather, counts, flags[:, TAKEN].sum())]
        facts += [*_of_memory(memory), *_of_descriptors(descriptors, _descriptors(pool))]
    small_log.close()
    return facts


def _env(flags: Path) -> Weathered:
    return Weathered(str(flags), EPISODE_STEPS, STEP_S)


def _look(pool: ninelives.Pool, memory: Memory, began: float, weather: Weather) -> None:
    seconds, keeper = time.monotonic() - began, _keeper_of(pool)
    if seconds < len(memory.program) * LOOK_EVERY_S or keeper is None:
        return
    memory.look(keeper, _pids(pool))
    if len(memory.program) % 60 == 0:
        sizes = f"{memory.program[-1]:.1f} + {memory.keeper[-1]:.1f} + {memory.workers[-1]:.1f} MB"
        print(f"{seconds:5.0f} s, {weather.sent.total()} faults, {sizes}", flush=True)


def _pids(pool: ninelives.Pool) -> list[int]:
    return [pid for pid in pool.worker_pids if pid is not None]


def _keeper_of(pool: ninelives.Pool) -> int | None:
    return next((parent for pid in _pids(pool) if (parent := parent_of(pid)) is not None), None)


def _descriptors(pool: ninelives.Pool) -> dict[str, int]:
    keeper = _keeper_of(pool)
    return {"program": len(leftovers.descriptors()), "keeper": len(leftovers.descriptors(keeper))}


def _things() -> set[str]:
    """Everything that a pool might leave behind."""
    processes = {str(process) for process in leftovers.descendants()}
    descriptors = {f"descriptor {number}: {target}" for number, target in leftovers.descriptors().items()}
    return processes | descriptors | leftovers.directories(tempfile.gettempdir())


# ---- the report ------------------------------------------------------------------------------------------------------


def _of_rows(run: PairedRun, counts: EventCounts, seconds: float) -> Iterator[Fact]:
    comparison = run.comparison
    yield Fact("duration", f"{seconds:,.0f} s, {run.steps / seconds:,.0f} steps/s beside the undisturbed run")
    different = comparison.first_difference
    words = f"{comparison.compared_rows:,} compared, {'all equal' if different is None else different}"
    yield Fact("rows", words, "equal", different is None)
    reasons = ", ".join(f"{reason}: {count}" for reason, count in counts.not_healed.items())
    first = f" ({reasons}; first {counts.first_not_healed})" if counts.not_healed else ""
    yield Fact("cut rows", f"{comparison.cut_rows}{first}", "0", not comparison.cut_rows and not counts.not_healed)


def _of_faults(weather: Weather, counts: EventCounts, taken: int) -> Iterator[Fact]:
    sent = ", ".join(f"{weather.sent[kind]} {kind}s" for kind in KINDS)
    yield Fact("injected", f"{sent}; {weather.left_out} left out while workers recovered", "", weather.sent.total() > 0)
    wanted = sum(weather.sent[kind] for kind in BREAKS)
    yield Fact("broken inside", f"{taken} times", str(wanted), taken == wanted)
    yield Fact("seen", ", ".join(f"{count} {name}" for name, count in counts.faults.most_common()))
    yield Fact("phases", ", ".join(f"{count} {name}" for name, count in counts.phases.most_common()))
    times = Percentiles.of(counts.recoveries_s)
    if times is not None:
        yield Fact("healed", f"{times.count:,} slots; median {times.p50:.2f} s, 90 % within {times.p90:.2f} s")
        yield Fact("replayed", f"{counts.replayed_steps:,} steps")


def _of_memory(memory: Memory) -> Iterator[Fact]:
    for who, most in MOST_MB.items():
        sizes: list[float] = getattr(memory, who)
        fifth, warm = max(len(sizes) // 5, 1), int(len(sizes) * WARM_PART)
        first, last = statistics.median(sizes[warm : warm + fifth]), statistics.median(sizes[-fifth:])
        words = f"{first:.1f} MB after warm-up, {last:.1f} MB at the end"
        yield Fact(f"memory of {'a worker' if who == 'workers' else who}", words, f"+{most:g} MB", last - first <= most)


def _of_descriptors(first: dict[str, int], last: dict[str, int]) -> Iterator[Fact]:
    for who, count in first.items():
        words = f"{count} at the beginning, {last[who]} at the end"
        yield Fact(f"descriptors of {who}", words, "equal", last[who] == count)


def _of_logs(run_dir: Path, place: Path) -> Iterator[Fact]:
    for name, folder, largest in (("event log", run_dir, LARGEST_BYTES), ("small log", place, SMALL_LOG_BYTES)):
        size = sum(path.stat().st_size for path in event_files(folder) if path.exists())
        yield Fact(name, f"{size:,} bytes", f"{2 * largest:,} bytes", size <= 2 * largest)
    kept = sorted(path.name for path in run_dir.iterdir())
    expected = all(name.startswith((EVENTS_FILE, "worker-")) for name in kept)
    yield Fact("run directory", ", ".join(kept), "events, logs", expected)


def _report(facts: list[Fact]) -> int:
    print()
    for fact in facts:
        bound = f" (bound: {fact.bound})" if fact.bound else ""
        print(f"{'ok' if fact.holds else 'FAILS':<8}{fact.what:<24}{fact.found}{bound}")
    return int(not all(fact.holds for fact in facts))


if __name__ == "__main__":
    sys.exit(main())
