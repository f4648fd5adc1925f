"""``ninelives doctor``: prints what happened in a run, or what this machine supports. Judges nothing itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ninelives.cli.diagnosis.finding import Finding
from ninelives.cli.reporting.verdict_table import MARGIN, SIGNS, conclude, say, show


@dataclass(frozen=True)
class DoctorCommand:
    """Explain what happened in a run and what to change; without RUN_DIR, check this machine.

    For example:
    $ ninelives doctor
    $ ninelives doctor runs/mario
    """

    run_dir: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[RUN_DIR]")] = None
    """Run directory of ninelives train, or the run_dir=... of a pool."""

    def run(self) -> int:
        """Print the report; exit code 1 if there is a problem."""
        return machine_report() if self.run_dir is None else run_report(self.run_dir)


def run_report(run_dir: Path) -> int:
    """Read, diagnose, print."""
    from ninelives.cli.diagnosis import diagnose
    from ninelives.cli.diagnosis.event_file import command_of, read_events
    from ninelives.cli.diagnosis.wording import by_command_line, in_flags
    from ninelives.view.words import seconds_in_words

    file = read_events(run_dir)
    overview, findings = diagnose(file.events)
    if by_command_line(command_of(run_dir)):
        findings = [in_flags(finding) for finding in findings]
    for line in overview:
        say(line)
    if file.kept_from_s:
        began = seconds_in_words(file.kept_from_s)
        say(f"the event files begin {began} after the start: older events were replaced and are not counted here")
    if file.cut_short:
        say("the last line of the event file is incomplete: the program was killed while writing, or is still running")
    if file.unreadable:
        say(f"{file.unreadable} lines of the event file could not be read and were skipped")
    for finding in findings:
        _show_finding(finding)
    severities = [finding.severity for finding in findings]
    return conclude(severities, "nothing was lost", "see also the workers' logs beside the event file")


def machine_report() -> int:
    """Check the machine and print each verdict as soon as it is known."""
    from ninelives.cli.diagnosis.machine_checks import check_machine

    severities = []
    for verdict in check_machine():
        severities.append(verdict.severity)
        show(verdict)
    return conclude(severities, "this machine is ready", "pools will not work properly here")


def _show_finding(finding: Finding) -> None:
    say("")
    say(finding.title, SIGNS[finding.severity])
    for detail in finding.details:
        say(f"{MARGIN}   {detail}")
    for line in finding.advice:
        say(f"{MARGIN}-> {line}")
