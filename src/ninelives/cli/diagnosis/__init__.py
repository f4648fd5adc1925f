"""What happened in a run, in plain words: events in, findings out. No process, no clock, no terminal is touched.

::

    events.jsonl --record--> events --run--> look-up --faults, healing, health--> findings --(ninelives doctor)--> text
"""

from __future__ import annotations

from collections.abc import Iterable

from ninelives.cli.diagnosis.faults import fault_findings
from ninelives.cli.diagnosis.finding import Finding
from ninelives.cli.diagnosis.healing import healing_findings
from ninelives.cli.diagnosis.health import health_findings, overview
from ninelives.cli.diagnosis.run import Run
from ninelives.events import Event

__all__ = ["Finding", "diagnose"]


def diagnose(events: Iterable[Event]) -> tuple[list[str], list[Finding]]:
    """A few lines about the whole run, and what was found, the worst first."""
    run = Run.of(events)
    findings = [*fault_findings(run), *healing_findings(run), *health_findings(run)]
    return overview(run), sorted(findings, key=lambda finding: finding.severity)
