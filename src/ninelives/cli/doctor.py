"""``ninelives doctor``: prints in plain words what happened in a run, or what this machine allows. Judges nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ninelives.cli.diagnosis.finding import Finding
from ninelives.cli.reporting.verdict_table import MARGIN, SIGNS, conclude, say, show


@dataclass(frozen=True)
class Doctor:
    """Say what happened in a run and what to change; without RUN_DIR, check this machine.

    For example:
    $ ninelives doctor
    $ ninelives doctor runs/mario
    """

    run_dir: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[RUN_DIR]")] = None
    """The directory of a run of ninelives train, or the one given to a pool as run_dir=..."""

    def run(self) -> int:
        """Print the report; 1 if there is a problem."""
        return machine_report() if self.run_dir is None else run_report(self.run_dir)


def run_report(run_dir: Path) -> int:
    """Read, diagnose, print."""
    from ninelives.cli.diagnosis import diagnose
    from ninelives.cli.diagnosis.record import read_record

    record = read_record(run_dir)
    overview, findings = diagnose(record.events)
    for line in overview:
        say(line)
    if record.cut_short:
        say("the record's last line is cut short: the program was killed while writing, or writes right now")
    if record.unreadable:
        say(f"{record.unreadable} lines of the record could not be read and were passed over")
    for finding in findings:
        _show_finding(finding)
    severities = [finding.severity for finding in findings]
    return conclude(severities, "nothing was lost", "the workers' logs beside the record tell more")


def machine_report() -> int:
    """Look at the machine, printing as it goes."""
    from ninelives.cli.diagnosis.machine import look

    severities = []
    for verdict in look():
        severities.append(verdict.severity)
        show(verdict)
    return conclude(severities, "this machine is ready", "pools cannot run as they should here")


def _show_finding(finding: Finding) -> None:
    say("")
    say(finding.title, SIGNS[finding.severity])
    for detail in finding.details:
        say(f"{MARGIN}   {detail}")
    for line in finding.advice:
        say(f"{MARGIN}-> {line}")
