"""The promises of the project in numbers, each checked against what was measured in the same run."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from alone import Alone
from emulated import OLD_LIMIT, Emulated
from healing import Price, Recovery, median_ms
from rounds import Measured

Value = Callable[["Findings"], float | None]


@dataclass(frozen=True)
class Findings:
    """All that one run has measured."""

    cells: Sequence[Measured]
    ninelives: Alone
    peer: Alone
    prices: Sequence[Price]
    recoveries: Sequence[Recovery]
    emulated: Emulated

    def cell(self, name: str) -> Measured | None:
        """A cell by its name, if it was part of the run."""
        return next((m for m in self.cells if m.cell.name == name), None)


@dataclass(frozen=True)
class Floor:
    """One promise: what, on which side of which bound, and where its value comes from."""

    what: str
    bound: float
    at_least: bool
    value: Value
    unit: str = ""

    def check(self, findings: Findings) -> Verdict:
        """Compare with the bound; a value that was not measured is neither kept nor broken."""
        value = self.value(findings)
        if value is None:
            return Verdict(self, None, None)
        return Verdict(self, value, value >= self.bound if self.at_least else value < self.bound)


@dataclass(frozen=True)
class Verdict:
    """What became of a floor; ``kept`` is None if it was not measured."""

    floor: Floor
    value: float | None
    kept: bool | None

    @property
    def word(self) -> str:
        """For the table."""
        return {True: "pass", False: "FAIL", None: "not measured"}[self.kept]


def ratio(cell: str, entry: str = "ninelives") -> Value:
    """Median over rounds of the share of the limit."""

    def value(findings: Findings) -> float | None:
        measured = findings.cell(cell)
        track = measured.track(entry) if measured else None
        return statistics.median(track.ratios) if track else None

    return value


def lead(cell: str, other: str, entry: str = "ninelives") -> Value:
    """Median over rounds of an entry's rate in units of another's."""

    def value(findings: Findings) -> float | None:
        measured = findings.cell(cell)
        ours, theirs = (measured.track(entry), measured.track(other)) if measured else (None, None)
        if ours is None or theirs is None:
            return None
        return statistics.median(a / b for a, b in zip(ours.rates, theirs.rates, strict=True))

    return value


def step_us(cell: str) -> Value:
    """Median time per environment step."""

    def value(findings: Findings) -> float | None:
        measured = findings.cell(cell)
        track = measured.track("ninelives") if measured else None
        return statistics.median(1e6 / rate for rate in track.rates) if track else None

    return value


def _dearest(findings: Findings) -> float | None:
    """The lowest median of all workloads: the floor holds only if every one keeps it."""
    return min((statistics.median(price.ratios) for price in findings.prices), default=None)


def recovery(what: str) -> Value:
    """Median milliseconds of one kind of recovery."""

    def value(findings: Findings) -> float | None:
        return next((median_ms(one) for one in findings.recoveries if one.what == what), None)

    return value


def _start_s(findings: Findings) -> float | None:
    return statistics.median(findings.ninelives.start_s) if findings.ninelives.start_s else None


def _idle_cores(findings: Findings) -> float | None:
    return statistics.median(findings.ninelives.idle_cores) if findings.ninelives.idle_cores else None


def _slot_mb(findings: Findings) -> float | None:
    return findings.ninelives.slot_mb


def emulated(one: str, other: str) -> Value:
    """Median of one arrangement's rate in units of another's."""
    return lambda findings: findings.emulated.ratio(one, other)


def _times_the_old_limit(findings: Findings) -> float | None:
    rate = findings.emulated.rate("errand")
    return None if rate is None else rate / OLD_LIMIT


FLOORS = (
    Floor("CartPole, 8 environments: of the limit", 0.50, True, ratio("cartpole-8")),
    Floor("CartPole, 32 environments: of the limit", 0.75, True, ratio("cartpole-32")),
    Floor("CartPole, 128 environments: of the limit", 0.85, True, ratio("cartpole-128")),
    Floor("CartPole, 32 environments, first ready: of the limit", 0.75, True, ratio("cartpole-32", "ninelives_first")),
    Floor(
        "CartPole, 128 environments, first ready: of the limit", 0.85, True, ratio("cartpole-128", "ninelives_first")
    ),
    Floor("CartPole, 8 environments: times Gymnasium Async", 5.0, True, lead("cartpole-8", "gymnasium_async"), "x"),
    Floor("1 ms burn, 8 environments, full batches: of the limit", 0.93, True, ratio("burn-8")),
    Floor("1 ms burn, 8 environments, first ready: of the limit", 0.96, True, ratio("burn-8", "ninelives_first")),
    Floor("heavy tail, 8 environments, first ready: of the limit", 0.90, True, ratio("tail-8", "ninelives_first")),
    Floor("heavy tail, 32 environments, first ready: of the limit", 0.90, True, ratio("tail-32", "ninelives_first")),
    Floor("null environment, 4 floats, 8 environments: per step", 3.0, False, step_us("null4-8"), " us"),
    Floor("null environment, 4 floats, 128 environments: per step", 0.5, False, step_us("null4-128"), " us"),
    Floor("idle pool of 8 CartPole slots", 0.02, False, _idle_cores, " cores"),
    Floor("start of 8 CartPole slots", 0.6, False, _start_s, " s"),
    Floor("memory per added CartPole slot, 2 workers", 0.2, False, _slot_mb, " MB"),
    Floor("heal, of cut, the dearest workload", 0.98, True, _dearest),
    Floor("recovery, CartPole, forkserver", 100, False, recovery("CartPole, forkserver"), " ms"),
    Floor("recovery, Pong, snapshots", 400, False, recovery("Pong, snapshots"), " ms"),
    Floor("recovery, Pong, snapshots and a spare", 60, False, recovery("Pong, snapshots and a spare"), " ms"),
    Floor("recovery, mGBA, snapshots", 150, False, recovery("mGBA, snapshots, a slot a worker"), " ms"),
    Floor("mGBA, one core, 12 frames: times all frames drawn", 3.0, True, emulated("errand", "errand_drawn"), "x"),
    Floor("mGBA, one core, 12 frames: times 35 steps/s", 25.0, True, _times_the_old_limit, "x"),
    Floor("mGBA, both cores: times one", 1.6, True, emulated("errand_both", "errand"), "x"),
    Floor("mGBA, 8 environments in a pool: of the limit", 0.93, True, ratio("errand-8", "ninelives_two")),
    Floor(
        "mGBA, 8 environments in a pool, first ready: of the limit", 0.93, True, ratio("errand-8", "ninelives_first")
    ),
    Floor(
        "mGBA, 8 environments in a pool, first ready: of two bare loops over the same 8",
        0.93,
        True,
        lead("errand-8", "apart", "ninelives_first"),
    ),
    Floor(
        "mGBA, 8 environments in a pool, first ready, workers pinned: of the limit",
        0.93,
        True,
        ratio("errand-8", "ninelives_pinned"),
    ),
    Floor(
        "mGBA, 8 environments in a pool, first ready, workers pinned: of two bare loops over the same 8",
        0.93,
        True,
        lead("errand-8", "apart", "ninelives_pinned"),
    ),
    Floor("NES, fceumm: times nes_py on the same ROM", 4.0, True, emulated("lantern", "lantern_nes_py"), "x"),
    Floor("mGBA, a worker with one slot", 35, False, lambda findings: findings.emulated.worker_mb, " MB"),
    Floor("mGBA, an added slot in a worker", 5, False, lambda findings: findings.emulated.slot_mb, " MB"),
)


def verdicts(findings: Findings) -> list[Verdict]:
    """Every floor, in the order of the table."""
    return [floor.check(findings) for floor in FLOORS]
