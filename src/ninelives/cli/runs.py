"""``ninelives runs``: lists the runs in a directory, shows one, compares several."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from ninelives.errors import ConfigError
from ninelives.view.words import plural

if TYPE_CHECKING:
    from ninelives.cli.reporting.run_facts import RunFacts

SHOW, COMPARE = "show", "compare"


@dataclass(frozen=True)
class RunsCommand:
    """List the runs in a directory, show one of them, or compare several.

    For example:
    $ ninelives runs
    $ ninelives runs show runs/mine
    $ ninelives runs compare runs/mine runs/yours
    """

    what: Annotated[
        tuple[str, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="[DIR] | show RUN_DIR | compare RUN_DIR ...", help_behavior_hint=""),
    ] = ()
    """Directory of runs (default: runs), or one run to show, or several to compare."""

    def run(self) -> int:
        """Print the list, the run or the comparison."""
        word, rest = (self.what[0], self.what[1:]) if self.what else ("runs", ())
        if word == SHOW:
            return _show(_each(SHOW, rest, exactly=1)[0])
        if word == COMPARE:
            return _compare(_each(COMPARE, rest))
        if rest:
            raise ConfigError(
                f"ninelives runs takes one directory, not {len(self.what)}; to compare: ninelives runs compare"
            )
        return _list(Path(word))


def _each(word: str, names: Sequence[str], exactly: int | None = None) -> list[RunFacts]:
    from ninelives.cli.reporting.run_facts import read_run
    from ninelives.pool.eventlog import has_run
    from ninelives.train.saving.run_dir import holds_run

    if not names or (exactly is not None and len(names) != exactly):
        raise ConfigError(f"ninelives runs {word} needs {'a run directory' if exactly else 'run directories'}")
    for name in names:
        if not holds_run(Path(name)):
            instead = f"contains no run; `ninelives runs {Path(name).parent}` lists the runs there"
            if has_run(Path(name)):
                instead = f"holds the events of a pool, not of training: `ninelives doctor {name}` explains them"
            raise ConfigError(f"{name} {instead}")
    return [read_run(Path(name)) for name in names]


def _list(directory: Path) -> int:
    from rich.console import Console
    from rich.table import Table

    from ninelives.cli.reporting.run_facts import read_run, runs_in

    found, refused = [], []
    for path in runs_in(directory):
        try:
            found.append(read_run(path))
        except ConfigError as error:
            refused.append(str(error))
    for words in refused:
        print(f"ninelives: {words}", file=sys.stderr)
    if not found and not refused:
        print(f"no runs in {directory}; {_instead(directory)}")
        return 0
    table = Table()
    for heading in ("run", "environment"):
        table.add_column(heading, overflow="fold")
    for heading in ("steps", "return", "best", "steps/s", "faults"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("curve", no_wrap=True)
    for run in found:
        state = " (running)" if run.is_running else ""
        table.add_row(f"{run.path.name}{state}", str(run.config.get("env", "?")), *_numbers(run), _line(run))
    Console(highlight=False).print(table)
    return 0


def _instead(directory: Path) -> str:
    """What to do where there is no run of training."""
    from ninelives.pool.eventlog import has_run

    pools = sorted(path for path in (directory, *directory.glob("*")) if has_run(path))
    if pools:
        return f"{plural(len(pools), 'pool')} kept events there: `ninelives doctor {pools[0]}` explains them"
    return "`ninelives train ENV` creates one"


def _show(run: RunFacts) -> int:
    from ninelives.view.curve import chart

    for name, value in _facts(run):
        print(f"{name}: {value}")
    if run.curve:
        print("mean return over steps:")
        print("\n".join(chart(run.curve)))
    return 0


def _facts(run: RunFacts) -> Iterator[tuple[str, object]]:
    from ninelives.cli.reporting.run_facts import step_of

    config = run.config
    yield "run", run.path
    yield "state", "running" if run.is_running else "not running"
    for name in ("env", "n_envs", "seed"):
        if name in config:
            yield name, config[name]
    yield "steps", f"{run.step:,} of {config['timesteps']:,}" if "timesteps" in config else f"{run.step:,}"
    yield "mean return", _number(run.mean_return)
    yield "best mean return", _number(run.best_mean)
    yield "steps/s", _number(run.steps_per_s)
    yield "faults", run.faults
    yield "checkpoint", run.newest or "none"
    if run.best is not None:
        yield "best checkpoint", f"{run.best} (step {step_of(run.best):,})"
    yield "weights sha256", run.weights
    for start in run.starts:
        yield "started", _start(start)


def _start(start: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {start[name]}" for name in ("ninelives", "python", "torch") if name in start)
    commit = f", commit {str(start['git_commit'])[:12]}" if "git_commit" in start else ""
    changed = " with uncommitted changes" if start.get("git_changed") else ""
    return f"{start.get('at', '?')}, {versions}{commit}{changed}"


def _compare(runs: Sequence[RunFacts]) -> int:
    from rich.console import Console
    from rich.table import Table

    table = Table()
    table.add_column("")
    for run in runs:
        table.add_column(run.path.name, justify="right", overflow="fold")
    for heading, *values in zip(("steps", "return", "best", "steps/s", "faults"), *map(_numbers, runs), strict=True):
        table.add_row(heading, *values)
    table.add_row("curve", *map(_line, runs))
    for name in differing([run.config for run in runs]):
        table.add_row(name, *(str(dict(_flat(run.config)).get(name, "")) for run in runs), style="yellow")
    Console(highlight=False).print(table)
    return 0


def differing(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of the settings that are not the same in all configurations."""
    flat = [dict(_flat(config)) for config in configs]
    names = dict.fromkeys(name for config in flat for name in config)
    return [name for name in names if any(config.get(name) != flat[0].get(name) for config in flat)]


def _flat(tree: Mapping[str, Any], section: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{section}{key}.")
        else:
            yield f"{section}{key}", value


def _numbers(run: RunFacts) -> tuple[str, ...]:
    numbers = (run.mean_return, run.best_mean, run.steps_per_s)
    return f"{run.step:,}", *map(_number, numbers), str(run.faults)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2f}"


def _line(run: RunFacts) -> str:
    from ninelives.view.curve import resample, sparkline

    return sparkline(resample(run.curve, 12)) if run.curve else ""
