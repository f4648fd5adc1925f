"""``ninelives check ENV``: steps an environment in workers and reports its properties. Never builds it here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from ninelives.cli.diagnosis.finding import Severity
from ninelives.cli.reporting.verdict_table import GOOD, Verdict, conclude, show
from ninelives.cli.target import env_spec
from ninelives.errors import Fault, WorkerError, WorkerStartError
from ninelives.view.stacks import blamed_line, raising_line
from ninelives.view.words import bytes_in_words

if TYPE_CHECKING:
    from ninelives.testing.conformance import EnvReport

DEFAULT_START = "forkserver"

NOT_DETERMINISTIC = "not deterministic"
USED_DIFFERS = "new environments agree, a used one differs"
"""The same words as those of ``ninelives chaos``."""

CLEAR_IT = (
    "clear everything in reset(), or use fresh_env_every_episode=True (--pool.fresh-env-every-episode), with which it "
    "heals exactly"
)


@dataclass(frozen=True)
class CheckCommand:
    """Examine an environment: determinism, buffers, pickling, speed, memory, start methods, on_fault.

    For example:
    $ ninelives check CartPole-v1
    $ ninelives check mygame:make --env-kwargs level=3 mode=hard --steps 1000
    """

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """A Gymnasium id such as CartPole-v1, or module:factory."""

    env_kwargs: Annotated[tuple[str, ...], tyro.conf.arg(metavar="[KEY=VALUE ...]")] = ()
    """Keyword arguments of the environment; values are parsed as Python literals where possible."""

    rom: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """Your own ROM, for games that need one."""

    steps: int = 200
    """Steps of each rollout; several rollouts are compared."""

    seed: int = 0
    """Seed of the environment and of the random actions."""

    timeout_s: float = 60.0
    """Time limit in seconds of one construction or one rollout."""

    def run(self) -> int:
        """Examine and print; exit code 1 if there is a problem."""
        from ninelives.testing.conformance import check_env

        spec = env_spec(self.env, self.env_kwargs, self.rom)
        try:
            verdicts = list(judge(check_env(spec, steps=self.steps, seed=self.seed, timeout_s=self.timeout_s)))
        except WorkerStartError:
            raise
        except WorkerError as error:
            print(error, file=sys.stderr)
            verdicts = [judge_fault(error.fault)]
        for verdict in verdicts:
            show(verdict)
        fit = f"{spec.label} is ready for a pool"
        return conclude((verdict.severity for verdict in verdicts), fit, "fix these before a long run")


def judge_fault(fault: Fault) -> Verdict:
    """What it means that the environment broke with every start method."""
    line = raising_line(fault.traceback) or blamed_line(fault.stderr_tail)
    found = f"{fault.summary}, {line}" if line else fault.summary
    return Verdict(fault.kind, Severity.PROBLEM, found, "a pool survives this; the stack above shows where to mend it")


def judge(report: EnvReport) -> Iterator[Verdict]:
    """What the report means, one verdict per property."""
    if report.deterministic:
        yield Verdict("deterministic", GOOD, "the same seed and actions give the same rows, in other processes too")
    elif report.reuse_differs:
        found = f"{USED_DIFFERS} at {report.first_difference}: reset() leaves something of earlier episodes"
        yield Verdict("reset", Severity.WARNING, found, CLEAR_IT)
    else:
        advice = "seed all randomness in reset(seed=...), so that episodes are repeatable and can be healed"
        found = f"{NOT_DETERMINISTIC}: differs at {report.first_difference}"
        yield Verdict("deterministic", Severity.WARNING, found, advice)
    buffer = (
        "the next step reuses its array; the pool copies it in time"
        if report.reuses_buffer
        else "a new array each step"
    )
    yield Verdict("observation", GOOD, buffer)
    yield from _judge_sending(report)
    yield Verdict("speed", GOOD, f"{report.steps_per_s:,.0f} steps/s, one copy alone")
    yield Verdict("memory", GOOD, f"{bytes_in_words(report.rss_bytes_per_copy)} for one more copy in a worker")
    yield from _judge_starts(report)
    for words in report.findings:
        yield Verdict("contract", Severity.PROBLEM, words)
    yield Verdict("on_fault", GOOD, report.on_fault)


def _judge_sending(report: EnvReport) -> Iterator[Verdict]:
    if report.picklable:
        yield Verdict("picklable", GOOD, "its factory can be sent to any worker")
    else:
        yield Verdict("picklable", Severity.WARNING, "no", "define it at module level, or use start_method='fork'")
    if report.isolated:
        yield Verdict("isolated", GOOD, "two copies in one process do not disturb each other")
    else:
        advice = "give every slot its own worker: workers=num_envs"
        yield Verdict("isolated", Severity.WARNING, "no: a second copy in the same process changes its results", advice)
    if report.shared_files:
        found = f"writes {', '.join(map(repr, report.shared_files))} where all slots of a worker work"
        advice = "write below current_slot().scratch, or give every slot its own worker: workers=num_envs"
        yield Verdict("files", Severity.WARNING, found, advice)


def _judge_starts(report: EnvReport) -> Iterator[Verdict]:
    for method, error in report.fork_safe.items():
        if error is None:
            yield Verdict(f"start: {method}", GOOD, "works")
        else:
            severity = Severity.PROBLEM if method == DEFAULT_START else Severity.WARNING
            working = [repr(name) for name, other in report.fork_safe.items() if other is None]
            found = f"does not work: {error.splitlines()[0]}"
            yield Verdict(f"start: {method}", severity, found, f"use start_method={' or '.join(working)}")
