"""The whole benchmark, run by ``run.py`` inside ``.venv-bench``: measures cells, checks floors, writes the page."""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import statistics
import sys
import time
from pathlib import Path

import alone
import emulated
import floors
import healing
import procfs
import report
from cells import CELLS, Cell
from ninelives.native import native_status
from rounds import Measured, measure

CORES = 2
RESULTS = Path(__file__).with_name("RESULTS.md")
CORES_HERE = Path(__file__).parent.parent / ".cores"
"""Where ``.ci/cores`` puts the emulators of the distribution."""


def main() -> int:
    args = _arguments()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    if CORES_HERE.exists():
        os.environ.setdefault("NINELIVES_CORES", str(CORES_HERE))
    began = time.monotonic()
    rounds, window_s = (1, 0.4) if args.quick else (args.rounds, args.window)
    findings = _measure_all(_chosen(args), rounds, window_s)
    found = floors.verdicts(findings)
    run = (
        f"{datetime.date.today():%d %B %Y}; {rounds} windows of {window_s:g} s per system (longer for the heavy tail, "
        "more for emulated games); "
        f"{(time.monotonic() - began) / 60:.1f} minutes."
    )
    about = {**procfs.describe_machine(), "native path": native_status().reason}
    page = report.render(findings, found, about, json.loads(args.missing), run)
    _publish(page, found, args)
    return int(args.strict and any(verdict.kept is False for verdict in found))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks/run.py", description="Ninelives and its peers, side by side.")
    parser.add_argument("--quick", action="store_true", help="one short window of a few cells; prints, writes no file")
    parser.add_argument("--only", nargs="+", metavar="CELL", help="cells by name: " + ", ".join(c.name for c in CELLS))
    parser.add_argument("--rounds", type=int, default=15, help="windows per system (default 15)")
    parser.add_argument("--window", type=float, default=0.5, help="seconds per window (default 0.5)")
    parser.add_argument("--out", type=Path, help="where the page goes (default benchmarks/RESULTS.md)")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a floor is broken")
    parser.add_argument("--missing", default="{}", help=argparse.SUPPRESS)
    args = parser.parse_args()
    unknown = set(args.only or ()) - {cell.name for cell in CELLS}
    if unknown:
        parser.error(f"no cell {', '.join(sorted(unknown))}; allowed: {', '.join(c.name for c in CELLS)}")
    return args


def _chosen(args: argparse.Namespace) -> list[Cell]:
    if args.only:
        return [cell for cell in CELLS if cell.name in args.only]
    return [cell for cell in CELLS if cell.quick or not args.quick]


def _measure_all(cells: list[Cell], rounds: int, window_s: float) -> floors.Findings:
    _say("start, idle, memory")
    ours, peer = alone.ninelives(rounds), alone.gymnasium_async(1)
    measured, machines = _measure_cells(cells, rounds, window_s)
    _say("memory of emulators")
    emulated.measure_memory(machines)
    _say("price of healing, recovery")
    quick = rounds == 1
    prices = healing.prices(cells, 2 if quick else healing.PAIRS, healing.WINDOW_S)
    recoveries = healing.recoveries(2 if quick else healing.KILLS)
    return floors.Findings(measured, ours, peer, prices, recoveries, machines)


def _measure_cells(cells: list[Cell], rounds: int, window_s: float) -> tuple[list[Measured], emulated.Emulated]:
    """Cell by cell, and after each some rounds of the emulators."""
    stage, each = emulated.Stage(), math.ceil(rounds / len(cells))
    measured = []
    try:
        for number, cell in enumerate(cells, 1):
            _say(f"{cell.name} ({number}/{len(cells)})")
            windows = rounds if rounds == 1 else rounds * cell.times
            measured.append(measure(cell, windows, window_s * cell.stretch, _say))
            _summarise(measured[-1])
            for _ in range(each):
                stage.round(window_s)
    finally:
        stage.close()
    _say("emulators")
    emulated.summarise(stage.found, _say)
    return measured, stage.found


def _summarise(measured: Measured) -> None:
    if measured.error:
        _say(f"  not measured: {measured.error}")
        return
    limit = statistics.median(window.rate for window in measured.limits)
    _say(f"  {'limit':<42}{limit:>12,.0f} steps/s")
    for track in measured.tracks:
        if track.windows:
            ratio = f"  ratio {statistics.median(track.ratios):.3f}" if track.ratios else ""
            _say(f"  {track.entry.label:<42}{statistics.median(track.rates):>12,.0f} steps/s{ratio}")


def _publish(page: str, found: list[floors.Verdict], args: argparse.Namespace) -> None:
    """A partial or quick run never replaces the results of a full one unless it is told where to write."""
    if args.out is None and (args.quick or args.only):
        _say("\n" + page)
        return
    target = args.out or RESULTS
    target.write_text(page)
    _say(f"\n{report.floors_table(found)}\n\nwritten: {os.path.relpath(target)}")


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
