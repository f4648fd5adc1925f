"""``ninelives chaos ENV``: kills workers while a pool steps and reports whether the environment heals exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from ninelives.cli.check import CLEAR_IT, NOT_DETERMINISTIC, USED_DIFFERS
from ninelives.cli.diagnosis.finding import Severity
from ninelives.cli.reporting.verdict_table import GOOD, Verdict, say, show
from ninelives.cli.target import env_spec
from ninelives.view.words import plural, seconds_in_words

if TYPE_CHECKING:
    from ninelives.testing.chaos import ChaosProgress
    from ninelives.testing.chaos_report import ChaosReport

SHORT = 200
"""Characters shown of a differing value; a whole image would be unreadable."""

SEED_IT = "seed all randomness in reset(seed=...), and keep clocks, files and addresses out of observations"
LOOK_CLOSER = (
    "`ninelives check ENV` examines it further; until it is fixed, on_fault='cut' masks the rows a fault interrupts"
)


@dataclass(frozen=True)
class ChaosCommand:
    """Break workers at random moments in random ways, and compare every row with an undisturbed run.

    Exit code 0: every row was present and equal. 1: a row differed or was cut.

    For example:
    $ ninelives chaos CartPole-v1
    $ ninelives chaos mygame:make --env-kwargs level=3 --kills 50 --hangs 5 --segfaults 5 --steps 5000
    """

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """A Gymnasium id such as CartPole-v1, or module:factory."""

    env_kwargs: Annotated[tuple[str, ...], tyro.conf.arg(metavar="[KEY=VALUE ...]")] = ()
    """Keyword arguments of the environment; values are parsed as Python literals where possible."""

    rom: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """Your own ROM, for games that need one."""

    kills: int = 200
    """Workers to kill by SIGKILL."""

    hangs: int = 20
    """Workers to stop by SIGSTOP; the step deadline detects them."""

    segfaults: int = 20
    """Workers to crash by reading an invalid address."""

    steps: int = 20_000
    """Environment steps of all slots together (2,500 batches of 8); more if the faults take longer."""

    num_envs: int = 8
    """Number of environments."""

    workers: int = 2
    """Number of worker processes."""

    batch_size: int | None = None
    """Slots per batch, for first-ready batches; by default all."""

    seed: int = 1
    """Seed of the environments, the actions and the faults."""

    start_method: Literal["forkserver", "fork", "spawn"] = "forkserver"
    """How workers are started."""

    step_timeout: float = 0.5
    """Seconds after which a step counts as hung; must exceed the environment's slowest step."""

    snapshot_every: int | None = None
    """Least number of steps between two snapshots, if the environment can save its state; 0: no snapshots."""

    fresh_env_every_episode: bool = False
    """Build a new environment for every episode, as the pool's setting of this name does."""

    ignore_infos: Annotated[tuple[str, ...], tyro.conf.arg(metavar="[NAME ...]")] = ()
    """Infos that may differ, such as measured times; a dot reaches into nested infos, as in timing.step."""

    def run(self) -> int:
        """Run and print the report."""
        from ninelives.testing.chaos import Chaos

        chaos = Chaos(
            env_spec(self.env, self.env_kwargs, self.rom), num_envs=self.num_envs, workers=self.workers,
            kills=self.kills, hangs=self.hangs, segfaults=self.segfaults, steps=self.steps, seed=self.seed,
            batch_size=self.batch_size, ignore_infos=self.ignore_infos, **self._settings(),
        )  # fmt: skip
        with _progress() as on_progress:
            report = chaos.run(on_progress)
        for fact in facts(report):
            show(fact)
        say("")
        for line in conclusion(report):
            say(line)
        return 0 if report.is_exact else 1

    def _settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "start_method": self.start_method, "step_timeout_s": self.step_timeout,
            "fresh_env_every_episode": self.fresh_env_every_episode,
        }  # fmt: skip
        if self.snapshot_every is not None:
            settings["snapshot_every"] = self.snapshot_every or None
        return settings


def facts(report: ChaosReport) -> Iterator[Verdict]:
    """What was counted, one verdict per line."""
    delivered = ", ".join(f"{report.delivered[kind]:,} of {plural(n, kind)}" for kind, n in report.wanted.items())
    yield Verdict("injected", GOOD, delivered)
    yield Verdict("faults", GOOD, f"{_counts(report.faults) or 'none'}; {plural(report.restarts, 'restart')}")
    if report.phases:
        yield Verdict("phases", GOOD, _counts(report.phases))
    if report.recovery_s is not None:
        p50, p90, most = map(seconds_in_words, (report.recovery_s.p50, report.recovery_s.p90, report.recovery_s.max))
        healed = plural(report.recovery_s.count, "slot")
        yield Verdict("recovery", GOOD, f"{healed} healed; median {p50}, 90 % within {p90}, longest {most}")
        yield Verdict("replayed", GOOD, plural(report.replayed_steps, "step"))
    made = f"{plural(report.steps, 'step')} in {seconds_in_words(report.seconds)}"
    yield Verdict("speed", GOOD, f"{report.steps_per_s:,.0f} steps/s, the undisturbed run included ({made})")
    yield from _judge_rows(report)


def _judge_rows(report: ChaosReport) -> Iterator[Verdict]:
    compared = f"{plural(report.compared_rows, 'row')} compared"
    if report.first_difference is None:
        yield Verdict("rows", GOOD, f"{compared}, all equal")
    else:
        yield Verdict("rows", Severity.PROBLEM, f"{compared}; a slot is compared until its first difference")
    if report.cut_rows:
        reasons = ", ".join(f"{reason}: {count:,}" for reason, count in report.not_healed.items())
        words = f"{plural(report.cut_rows, 'masked row')}" + (f"; not healed: {reasons}" if reasons else "")
        yield Verdict("cut", Severity.PROBLEM, f"{words}; a slot is compared until its first masked row")
    else:
        yield Verdict("cut", GOOD, "no row")


def conclusion(report: ChaosReport) -> list[str]:
    """The result in words, and what to do next."""
    injected, rows = sum(report.delivered.values()), plural(report.compared_rows, "row")
    if report.is_exact and not injected:
        return [f"equal: all {rows} are the same in both runs; no fault was injected, so nothing was healed"]
    if report.is_exact:
        equal = f"after {plural(injected, 'injected fault')}, all {rows} equal those of the undisturbed run"
        return [f"safe: {equal}; {report.env} heals exactly"]
    if "reset" in report.not_healed:
        return _of_reset(report)
    if report.first_difference is not None:
        return _of_difference(report)
    return _of_cuts(report)


def _of_reset(report: ChaosReport) -> list[str]:
    lines = [f"{USED_DIFFERS}: reset() leaves something of earlier episodes; {plural(report.cut_rows, 'row')} cut"]
    if report.first_difference is not None:
        lines.append(f"  first wrong row: {_short(report.first_difference)}")
    return [*lines, f"  first: {report.first_not_healed}", f"-> {CLEAR_IT}", "-> --fresh-env-every-episode shows that"]


def _of_difference(report: ChaosReport) -> list[str]:
    difference = report.first_difference
    assert difference is not None
    first = (
        f"{NOT_DETERMINISTIC}: first difference in slot {difference.slot} at step {difference.step}: {difference.what}"
    )
    lines = [first, f"  expected  {_short(difference.expected)}", f"  got       {_short(difference.got)}"]
    if difference.what.startswith("info."):
        name = difference.what.removeprefix("info.").partition("[")[0]
        return [*lines, f"-> if that info is measured, such as a time: --ignore-infos {name}; otherwise {SEED_IT}"]
    if not difference.after_fault:
        lines.append("  that slot had not been disturbed yet: two plain runs of the environment differ")
    return [*lines, f"-> {SEED_IT}", f"-> {LOOK_CLOSER.replace('ENV', report.env)}"]


def _of_cuts(report: ChaosReport) -> list[str]:
    cut = plural(report.cut_rows, "row")
    first = f"  first: {report.first_not_healed}" if report.first_not_healed else "  no slot was healed at all"
    if "diverged" in report.not_healed:
        head = f"{NOT_DETERMINISTIC}: no wrong row, but {cut} cut because the replay diverged"
        return [head, first, f"-> {SEED_IT}", f"-> {LOOK_CLOSER.replace('ENV', report.env)}"]
    head = f"not healed: no wrong row, but {cut} cut"
    return [head, first, "-> docs/chaos.md explains each reason and what to change"]


def _counts(counted: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counted.items())


def _short(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= SHORT else f"{text[:SHORT]} ..."


@contextmanager
def _progress() -> Iterator[Callable[[ChaosProgress], None]]:
    """A progress bar on a terminal, nothing elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console()
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    hidden = not console.is_terminal
    # No refresh thread: workers may be forked from this process.
    with Bar(*columns, console=console, transient=True, disable=hidden, auto_refresh=False) as bar:
        task = bar.add_task("starting", total=None)

        def show_it(at: ChaosProgress) -> None:
            words = f"{at.steps:,} steps, {at.delivered:,} of {plural(at.wanted, 'fault')}"
            bar.update(task, description=words, completed=at.steps, total=max(at.of_steps, at.steps), refresh=True)

        yield show_it
