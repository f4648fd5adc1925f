"""Prints verdicts as lines on the terminal and derives the exit code. Judges nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ninelives.cli.diagnosis.finding import Severity
from ninelives.view.words import plural

GOOD = None
"""Severity of a verdict without complaints."""

SIGNS = {
    GOOD: "[green]ok[/]     ",
    Severity.NOTE: "[blue]note[/]   ",
    Severity.WARNING: "[yellow]warning[/]",
    Severity.PROBLEM: "[red]problem[/]",
}
MARGIN = " " * 8


@dataclass(frozen=True)
class Verdict:
    """One thing that was checked: its severity, what was found, what to do about it."""

    name: str
    severity: Severity | None
    found: str
    advice: str = ""


def say(text: str, sign: str = "") -> None:
    """Print one line; ``sign`` may contain markup, the text is printed literally."""
    from rich.console import Console
    from rich.markup import escape

    Console(highlight=False, soft_wrap=True).print(f"{sign} {escape(text)}" if sign else escape(text))


def show(verdict: Verdict) -> None:
    """Print one verdict and its advice."""
    say(f"{verdict.name:<18}{verdict.found}", SIGNS[verdict.severity])
    if verdict.advice:
        say(f"{MARGIN}-> {verdict.advice}")


def conclude(severities: Iterable[Severity | None], good: str, bad: str) -> int:
    """Print the last line and return the exit code: 1 if there is a problem."""
    found = list(severities)
    problems, warnings = found.count(Severity.PROBLEM), found.count(Severity.WARNING)
    say("")
    if problems:
        say(f"{plural(problems, 'problem')} found; {bad}")
        return 1
    say(f"{good}, with {plural(warnings, 'warning')}" if warnings else good)
    return 0
