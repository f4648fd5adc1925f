"""What happened in a run, in plain words: events in, findings out. No process, no clock, no terminal is touched.

::

    events.jsonl --record--> events --run--> look-up --faults, healing, health--> findings --(rookery doctor)--> text
"""

from __future__ import annotations

from collections.abc import Iterable

from rookery.cli.diagnosis.faults import fault_findings
from rookery.cli.diagnosis.finding import Finding
from rookery.cli.diagnosis.healing import healing_findings
from rookery.cli.diagnosis.health import health_findings, overview
from rookery.cli.diagnosis.run import Run
from rookery.events import Event

__all__ = ["Finding", "diagnose"]


def diagnose(events: Iterable[Event]) -> tuple[list[str], list[Finding]]:
    """A few lines about the whole run, and what was found, the worst first."""
    run = Run.of(events)
    findings = [*fault_findings(run), *healing_findings(run), *health_findings(run)]
    return overview(run), sorted(findings, key=lambda finding: finding.severity)
