"""Turns measurements into the text of ``RESULTS.md``. Knows numbers and words, measures nothing."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

from alone import Alone
from emulated import Emulated
from floors import Findings, Verdict
from healing import Price, Recovery
from page import bullets, spread, table, versions
from rounds import Measured, Track

PACKAGES = (
    "ninelives",
    "gymnasium",
    "stable-baselines3",
    "tianshou",
    "envpool",
    "ale-py",
    "torch",
    "numpy",
    "stable-retro",
    "nes-py",
)

TITLES = {
    "cartpole": "CartPole-v1",
    "burn": "1 ms CPU burn, 84x84x4 uint8",
    "tail": "Heavy tail (95 % 0.5 ms, 5 % 10.5 ms), 84x84x4 uint8",
    "null4": "Null environment, 4 floats",
    "null84": "Null environment, 84x84x4 uint8",
    "pong": "ALE Pong, 4 frames of 84x84",
    "errand": "Rook's Errand on mGBA, 12 frames a step, 84x84 and 8 words",
}

METHOD = """\
- Every system lives in its own process, opened once per table; one runs at a time, the others stand idle. A round is
  one window of each, in turning order. Below: median over windows, in brackets the slowest and the fastest window.
  Every window has a run-up that does not count: rows that lay ready since the last one are not of this one.
- The **limit** is two bare loops (`env.step`, `env.reset`, nothing else) in two processes at the same time, measured
  before and after every round. A **ratio** is a window's rate over the mean of the two limits around its own round; the
  table has the median of the ratios. The heavy tail is compared with the burn's limit: same mean cost, less noise.
  Each of these loops has one environment. The rows **no system** are two bare loops with half of the table's
  environments each, at their own pace or, as full batches must, waiting for each other after every round. What is
  missing in these rows is missing on this machine whatever the system.
- Random actions from a table made beforehand. Only true steps count: where a batch row holds a reset, it is not a step.
- Costs of the burn are CPU time of the thread. Heavy-tail costs come from shuffled decks of 100 steps.
- Systems have the settings their users get; a row says otherwise. Everything is confined to two cores.
- Peers seed the first reset only. Ninelives's default, a seed for every episode, costs about 20 us an episode
  (an Atari game is read once for it, not for every seed). It has a row of its own; every other row does the same work
  as the peers.
- The price of healing: two pools, one with `on_fault="heal"`, one with `"cut"`, each in a process of its own and with
  equally many workers, take turns in short windows of equally many batches, the same episodes step by step, and each
  pair of windows gives one ratio. Six pairs of pools are opened one after the other. "+-" is the standard error of the
  median.
- The bare loops of emulators are measured in rounds between the other tables, all over the run: a speed without a
  limit beside it should not be that of one slow minute of the host.
- "start" is from the system's import to its first observations; PSS is of its whole process tree, after half a second.
- EnvPool steps its own C++ version of a game, so a ratio to these bare loops would mean nothing.
- "others" is what all processes but the measured ones used, "steal" what the host took, both in cores (worst window): a
  table with much of either is worth little."""


def render(
    findings: Findings, found: Sequence[Verdict], machine: Mapping[str, str], missing: Mapping[str, str], run: str
) -> str:
    """The whole page."""
    parts = [
        "# Results of `make bench`",
        run,
        "## Floors",
        floors_table(found),
        "## Machine and versions",
        bullets({**machine, **versions(PACKAGES)}.items()),
        *([_missing(missing)] if missing else []),
        "## Method",
        METHOD,
        *(cell_section(measured) for measured in findings.cells),
        "## Start, idle, memory (8 CartPole slots)",
        alone_table([findings.ninelives, findings.peer]),
        "## Emulators: bare loops in turn, all over the run",
        emulated_table(findings.emulated),
        "## Healing: its price while nothing breaks",
        prices_table(findings.prices),
        "## Healing: from a worker's death until its slots are back (8 slots, two a worker unless it says otherwise)",
        recoveries_table(findings.recoveries),
    ]
    return "\n\n".join(parts) + "\n"


def floors_table(found: Sequence[Verdict]) -> str:
    """Every floor with its value and what became of it."""
    rows = []
    for verdict in found:
        floor = verdict.floor
        value = "" if verdict.value is None else f"{verdict.value:.3f}{floor.unit}"
        rows.append((floor.what, f"{'>=' if floor.at_least else '<'} {floor.bound:g}{floor.unit}", value, verdict.word))
    return table(("what", "floor", "measured", ""), "lrrl", rows)


def cell_section(measured: Measured) -> str:
    """One workload at one size: a headed table and the state of the machine."""
    cell = measured.cell
    title = f"## {TITLES[cell.workload]}, {cell.num_envs} environments"
    if measured.error:
        return f"{title}\n\nNot measured: {measured.error}"
    rows = [_limit_row(measured), *(_track_row(track) for track in measured.tracks)]
    head = ("system", "steps/s", "(spread)", "ratio", "(spread)", "us/step", "start s", "PSS MB", "processes")
    notes = [f"{track.entry.label}: {track.notes}." for track in measured.tracks if track.notes]
    windows = [*measured.limits, *(w for track in measured.tracks for w in track.windows)]
    disturbed = f"others <= {max(w.others for w in windows):.2f}, steal <= {max(w.steal for w in windows):.2f} cores."
    return "\n\n".join((title, table(head, "lrrrrrrrr", rows), " ".join((*notes, disturbed))))


def alone_table(systems: Iterable[Alone]) -> str:
    """Start-up, idle cost and memory per slot."""
    rows = []
    for system in systems:
        if system.error or not system.start_s:
            rows.append((system.label, system.error or "not measured", "", "", "", ""))
            continue
        mb = "" if system.slot_mb is None else f"{system.slot_mb:.3f}"
        rows.append(
            (system.label, *spread(system.start_s, ".2f"), *spread(system.idle_cores, ".4f"), mb)
        )  # fmt: skip
    head = ("system", "start s", "(spread)", "idle cores", "(spread)", "MB per added slot")
    return table(head, "lrrrrr", rows)


ARRANGEMENTS = {
    "errand": "Rook's Errand, mGBA, one loop, last of 12 frames drawn",
    "errand_drawn": "the same, all 12 drawn",
    "errand_both": "two loops at once, last of 12 drawn",
    "lantern": "Lantern, fceumm, one loop, 4 frames",
    "lantern_nes_py": "the same by nes_py",
}


def emulated_table(found: Emulated) -> str:
    """Steps per second of every arrangement."""
    rows = [
        (label, *spread(found.rates[name], ",.0f")) if name in found.rates else (label, found.errors.get(name, ""), "")
        for name, label in ARRANGEMENTS.items()
    ]
    return table(("what", "steps/s", "(spread)"), "lrr", rows)


def prices_table(prices: Iterable[Price]) -> str:
    """Steps per second with ``on_fault="heal"`` in units of those with ``"cut"``, the same pools taking turns."""
    rows = [
        (
            *(price.cell, price.entry, *spread(price.ratios, ".3f"), f"{price.error:.3f}"),
            *(_quartiles(price.ratios), str(len(price.ratios))),
        )
        for price in prices
    ]
    return table(("workload", "mode", "heal / cut", "(spread)", "+-", "quartiles", "pairs"), "llrrrrr", rows)


def recoveries_table(recoveries: Iterable[Recovery]) -> str:
    """Milliseconds, slot by slot."""
    rows = [
        (
            one.what,
            *spread([1e3 * s for s in one.seconds], ".0f"),
            f"{statistics.mean(one.replayed):.0f}",
            str(len(one.seconds)),
        )
        for one in recoveries
        if one.seconds
    ]
    return table(("what", "ms", "(spread)", "steps replayed", "slots healed"), "lrrrr", rows)


def _quartiles(values: Sequence[float]) -> str:
    low, _, high = statistics.quantiles(values, n=4)
    return f"{low:.3f} to {high:.3f}"


def _limit_row(measured: Measured) -> tuple[str, ...]:
    rates = [window.rate for window in measured.limits]
    return ("**limit**: two bare loops", *spread(rates, ",.0f"), "1", "", _us(rates), "", "", "2")


def _track_row(track: Track) -> tuple[str, ...]:
    if track.error or not track.windows:
        return (track.entry.label, f"failed: {track.error}", *[""] * 7)
    ratios = spread(track.ratios, ".3f") if track.ratios else ("", "")
    return (
        track.entry.label, *spread(track.rates, ",.0f"), *ratios, _us(track.rates),
        f"{track.start_s:.2f}", f"{track.pss_mb:.0f}", str(track.processes),
    )  # fmt: skip


def _us(rates: Sequence[float]) -> str:
    us = 1e6 / statistics.median(rates)
    return f"{us:,.0f}" if us >= 100 else f"{us:.2f}"


def _missing(missing: Mapping[str, str]) -> str:
    return "Did not install, so not measured:\n\n" + bullets(missing.items())
