"""What happened in a run: events in, findings out. Touches no process, no clock and no terminal.

::

    events.jsonl --event_file--> events --run_history--> faults, healing, health --> findings --(doctor)--> text
"""

from __future__ import annotations

from collections.abc import Iterable

from ninelives.cli.diagnosis.faults import fault_findings
from ninelives.cli.diagnosis.finding import Finding
from ninelives.cli.diagnosis.healing import healing_findings
from ninelives.cli.diagnosis.health import health_findings, overview
from ninelives.cli.diagnosis.run_history import RunHistory
from ninelives.events import Event

__all__ = ["Finding", "diagnose"]


def diagnose(events: Iterable[Event]) -> tuple[list[str], list[Finding]]:
    """A few lines about the whole run, and the findings, the most severe first."""
    run = RunHistory.of(events)
    findings = [*fault_findings(run), *healing_findings(run), *health_findings(run)]
    return overview(run), sorted(findings, key=lambda finding: finding.severity)
