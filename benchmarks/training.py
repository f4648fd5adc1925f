"""How fast it trains, end to end: Ninelives and its peers in turn, same network, same settings; overlap; faults.

``python benchmarks/training.py --cleanrl PATH/ppo.py`` writes ``TRAINING.md``.

::

    round 1:  Ninelives | SB3 Dummy | SB3 Subproc | CleanRL      every run a process of its own, on two cores
    round 2:  SB3 Dummy | SB3 Subproc | CleanRL | Ninelives      the order turns

A run's rate is steps over seconds between its third update and its last, collecting and learning, without the start.
"""

from __future__ import annotations

import argparse
import datetime
import statistics
import sys
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import procfs
from onerun import Request, RunFailedError, in_a_child
from page import bullets, spread, table, versions
from tasks import Settings
from tracks import WARM_UPDATES, Course

PAGE = Path(__file__).with_name("TRAINING.md")

PPO = Settings()
SMALL_CNN = Settings(n_steps=32, batch=64, epochs=3, net="cnn")

FLOOR_PEERS, FLOOR_CHAOS, CEILING_OVERLAP = 1.5, 0.85, 1.10

METHOD = """\
- Peers come as their users get them, and once more with one thread for torch, which suits small networks: the best row
  of them is the one that is compared. Ninelives chooses its threads itself.
- All of them: 8 environments, two tanh layers of 64 for the policy and two for the value, rollouts of 128, 4 epochs of
  minibatches of 256, Adam 2.5e-4. CleanRL's script is run as it is; its value clipping is off, as in the others.
- Only true steps count: rows of Ninelives that hold a reset are left out. CleanRL's cannot be told apart, and count.
- Overlap: a simulator that lets one wait 5 ms a step, 42x42x2 pixels, a CNN. Collecting alone and learning alone are
  timed in a run without overlap, time per update in a run with it; the runs take turns. Both learn with one thread,
  since the other core is the collector's.
- Chaos: one SIGKILL of a random worker each second and one SIGSTOP each minute, in turn with quiet runs of the same
  settings; a step may take a second before its worker counts as hung."""


@dataclass(frozen=True)
class Entry:
    """One row: a system and how it is set up."""

    label: str
    system: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def is_peer(self) -> bool:
        """Whether Ninelives is compared with it."""
        return self.system != "ninelives"


@dataclass
class Lane:
    """An entry and its runs; ``error`` where one failed."""

    entry: Entry
    courses: list[Course] = field(default_factory=list)
    error: str = ""

    @property
    def rates(self) -> list[float]:
        """Steps per second, run by run."""
        return [course.rate for course in self.courses]


def entries(cleanrl: Path | None) -> list[Entry]:
    """Everybody who takes part in the CartPole rounds."""
    rows = [
        Entry("Ninelives", "ninelives"),
        Entry("SB3 PPO, DummyVecEnv", "sb3"),
        Entry("SB3 PPO, DummyVecEnv, 1 thread", "sb3", {"threads": 1}),
        Entry("SB3 PPO, SubprocVecEnv", "sb3", {"subproc": True}),
        Entry("SB3 PPO, SubprocVecEnv, 1 thread", "sb3", {"subproc": True, "threads": 1}),
    ]
    if cleanrl is not None:
        script = str(cleanrl.resolve())
        rows.append(Entry("CleanRL ppo.py", "cleanrl", {"script": script}))
        rows.append(Entry("CleanRL ppo.py, 1 thread", "cleanrl", {"script": script, "threads": 1}))
    return rows


def main() -> int:
    args = _arguments()
    sections = []
    if "cartpole" in args.only:
        sections.append(throughput(race(entries(args.cleanrl), "CartPole-v1", args.steps, PPO, args.rounds)))
    if "overlap" in args.only:
        ways = (("in turn", "off"), ("overlap", "on"))
        rows = [Entry(name, "ninelives", {"overlap": how, "threads": 1}) for name, how in ways]
        sections.append(overlap(race(rows, "slow", args.slow_steps, SMALL_CNN, args.rounds)))
    if "chaos" in args.only:
        rows = [Entry("quiet", "ninelives"), Entry("chaos", "ninelives", {"chaos": True})]
        sections.append(chaos(race(rows, "CartPole-v1", args.chaos_steps, PPO, args.rounds)))
    page = _render(sections, args)
    if args.out is None and (args.quick or len(sections) < 3):
        print(page)
    else:
        (args.out or PAGE).write_text(page)
        print(f"written: {args.out or PAGE}")
    return 0


def _arguments() -> argparse.Namespace:
    parts = ("cartpole", "overlap", "chaos")
    parser = argparse.ArgumentParser(prog="benchmarks/training.py", description="Training end to end, side by side.")
    parser.add_argument(
        "--cleanrl", type=Path, metavar="PATH", help="CleanRL's cleanrl/ppo.py; else it is not measured"
    )
    parser.add_argument("--only", nargs="+", choices=parts, default=list(parts), help="parts of the page")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each system (default 5)")
    parser.add_argument("--steps", type=int, default=100_000, help="steps of a CartPole run")
    parser.add_argument("--slow-steps", type=int, default=8_000, help="steps of a run on the slow simulator")
    parser.add_argument("--chaos-steps", type=int, default=600_000, help="steps of a run under chaos")
    parser.add_argument("--quick", action="store_true", help="one short round; prints, writes no file")
    parser.add_argument("--out", type=Path, help="where the page goes (default benchmarks/TRAINING.md)")
    args = parser.parse_args()
    if args.cleanrl is not None and not args.cleanrl.is_file():
        parser.error(f"--cleanrl {args.cleanrl}: no such file; give the path of CleanRL's cleanrl/ppo.py")
    if args.quick:
        args.rounds, args.steps, args.slow_steps, args.chaos_steps = 1, 10_000, 1_536, 20_000
    return args


def race(rows: list[Entry], game: str, steps: int, settings: Settings, rounds: int) -> list[Lane]:
    """Run everybody in turn, the order turning from round to round."""
    lanes = [Lane(entry) for entry in rows]
    for turn in range(rounds):
        first = turn % len(lanes)
        for lane in lanes[first:] + lanes[:first]:
            if lane.error:
                continue
            options = {**lane.entry.options, "evaluated": 0}
            try:
                lane.courses.append(in_a_child(Request(lane.entry.system, game, steps, turn, settings, options)))
                said = f"{lane.rates[-1]:,.0f} steps/s"
            except RunFailedError as failure:
                said = lane.error = str(failure)
            print(f"{game}, round {turn + 1}: {lane.entry.label}: {said}", flush=True)
    return lanes


def throughput(lanes: list[Lane]) -> str:
    """CartPole, and the ratio to the best peer, round by round."""
    good = [lane for lane in lanes if lane.courses and not lane.error]
    peers = [lane for lane in good if lane.entry.is_peer]
    ours = next((lane for lane in good if not lane.entry.is_peer), None)
    parts = ["## CartPole-v1, 8 environments", _rates(lanes)]
    if ours and peers:
        best = max(peers, key=lambda lane: statistics.median(lane.rates))
        ratios = [mine / theirs for mine, theirs in zip(ours.rates, best.rates, strict=True)]
        parts.append(_verdict(f"Ninelives / {best.entry.label}", ratios, FLOOR_PEERS, at_least=True))
    if not any(lane.entry.system == "cleanrl" for lane in lanes):
        parts.append("CleanRL: not measured (give its script with `--cleanrl`).")
    return "\n\n".join(parts)


def overlap(lanes: list[Lane]) -> str:
    """Time per update with overlap, against the longer of collecting and learning."""
    serial, overlapped = lanes
    parts = ["## Overlap on a simulator of 5 ms a step, 8 environments", _rates(lanes)]
    if serial.courses and overlapped.courses and not (serial.error or overlapped.error):
        rows, ratios = [], []
        for alone, both in zip(serial.courses, overlapped.courses, strict=True):
            collect, learn = _typical(alone.facts["collect_s"]), _typical(alone.facts["learn_s"])
            update = _typical(_gaps(both))
            ratios.append(update / max(collect, learn))
            rows.append([f"{1e3 * seconds:.0f}" for seconds in (collect, learn, collect + learn, update)])
        head = ("collect ms", "learn ms", "sum ms", "per update, overlapped ms")
        parts.append(table(head, "rrrr", rows))
        parts.append(_verdict("time per update / max(collect, learn)", ratios, CEILING_OVERLAP, at_least=False))
    return "\n\n".join(parts)


def chaos(lanes: list[Lane]) -> str:
    """Speed and weights under chaos, against quiet."""
    quiet, wild = lanes
    parts = ["## Chaos: CartPole-v1, one SIGKILL a second, one hang a minute", _rates(lanes)]
    if quiet.courses and wild.courses and not (quiet.error or wild.error):
        pairs = list(zip(quiet.courses, wild.courses, strict=True))
        same = sum(a.facts["weights"] == b.facts["weights"] for a, b in pairs)
        murders = sum(b.facts["murders"] for _, b in pairs)
        valid = min(min(b.facts["valid"]) for _, b in pairs)
        parts.append(_verdict("chaos / quiet", [b.rate / a.rate for a, b in pairs], FLOOR_CHAOS, at_least=True))
        parts.append(f"Weights equal in {same} of {len(pairs)} pairs; {murders} murders; least valid share {valid:g}.")
    return "\n\n".join(parts)


def _rates(lanes: list[Lane]) -> str:
    rows = []
    for lane in lanes:
        if lane.error or not lane.courses:
            rows.append((lane.entry.label, f"failed: {lane.error}", "", ""))
        else:
            rows.append((lane.entry.label, *spread(lane.rates, ",.0f"), str(len(lane.courses))))
    return table(("system", "steps/s", "(spread)", "runs"), "lrrr", rows)


def _verdict(what: str, ratios: list[float], bound: float, *, at_least: bool) -> str:
    middle, around = spread(ratios, ".3f")
    kept = statistics.median(ratios) >= bound if at_least else statistics.median(ratios) <= bound
    asked = f"{'>=' if at_least else '<='} {bound:g}"
    return f"{what}: **{middle}** {around}, asked {asked}: {'kept' if kept else 'BROKEN'}."


def _gaps(course: Course) -> list[float]:
    times = [seconds for seconds, _ in course.marks]
    return [later - earlier for earlier, later in pairwise(times)]


def _typical(seconds: list[float]) -> float:
    return statistics.median(seconds[WARM_UPDATES:] or seconds)


def _render(sections: list[str], args: argparse.Namespace) -> str:
    about = bullets({**procfs.describe_machine(), **versions()}.items())
    run = f"{datetime.date.today():%d %B %Y}; {args.rounds} runs of each; written by `python benchmarks/training.py`."
    parts = ["# Training, side by side", run, "## Machine and versions", about, "## Method", METHOD, *sections]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
