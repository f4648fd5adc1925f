"""Groups faults by cause, one finding each: which slots, which phase, how often, where, and at what cost."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ninelives.cli.diagnosis import advice
from ninelives.cli.diagnosis.finding import Finding, Severity
from ninelives.cli.diagnosis.run_history import RunHistory
from ninelives.events import FaultSeen, SlotHealed
from ninelives.view.stacks import exception_line, fault_place
from ninelives.view.words import plural, seconds_in_words, slots_in_words, times

MANY_SLOTS = 6
"""With more slots than this, the count of each is left out."""


@dataclass(frozen=True)
class Cause:
    """What two faults must share to be grouped together."""

    kind: str
    phase: str
    during_start: bool
    how: str
    where: str


def fault_findings(run: RunHistory) -> list[Finding]:
    """One finding per cause, the most frequent first."""
    by_cause: dict[Cause, list[FaultSeen]] = {}
    for fault in run.faults:
        by_cause.setdefault(cause_of(fault), []).append(fault)
    return [_finding(run, cause, faults) for cause, faults in sorted(by_cause.items(), key=lambda item: -len(item[1]))]


def cause_of(fault: FaultSeen) -> Cause:
    """The part of a fault that repeats, without the times, seeds and numbers in its text."""
    code = "" if fault.exit_code is None else f"code {fault.exit_code}"
    how = fault.signal or code or exception_line(fault.traceback)
    return Cause(fault.kind, fault.phase, fault.during_start, how, fault_place(fault))


def slots_at_fault(fault: FaultSeen) -> tuple[int, ...]:
    """The slot that was being stepped, or all slots of the worker if none was."""
    return fault.slots if fault.culprit is None else (fault.culprit,)


def _finding(run: RunHistory, cause: Cause, faults: list[FaultSeen]) -> Finding:
    at_fault = {slot for fault in faults for slot in slots_at_fault(fault)}
    title = f"{slots_in_words(at_fault)} {_did(cause, faults[-1], many=len(at_fault) > 1)}, {times(len(faults))}"
    details = [_when(run, faults), *_counts(faults), *_where(cause), *_replay(faults), *_cost(run, faults)]
    remedies = advice.for_cause(run, cause.kind, cause.where, faults)
    return Finding(_severity(run, faults), title, tuple(details), tuple(remedies))


def _severity(run: RunHistory, faults: list[FaultSeen]) -> Severity:
    """A fault that was healed cost only time: a warning, not a problem."""
    outcomes = run.outcomes_of(faults) if run.heals else []
    healed = bool(outcomes) and all(isinstance(outcome, SlotHealed) for outcome in outcomes)
    return Severity.WARNING if healed else Severity.PROBLEM


def _did(cause: Cause, last: FaultSeen, many: bool) -> str:
    if cause.kind == "hung":
        return "did not respond to requests" if cause.phase == "idle" else f"hung in {cause.phase}"
    done = last.summary.splitlines()[0] if last.summary else "broke"
    return f"{'were' if many else 'was'} {done}" if done.startswith("killed") else done


def _when(run: RunHistory, faults: list[FaultSeen]) -> str:
    first, last = (seconds_in_words(run.since_begin(fault)) for fault in (faults[0], faults[-1]))
    return f"{first} after the start" if len(faults) == 1 else f"first {first}, last {last} after the start"


def _counts(faults: list[FaultSeen]) -> Iterable[str]:
    counts = Counter(slot for fault in faults for slot in slots_at_fault(fault))
    if 1 < len(counts) <= MANY_SLOTS and len(faults) > 1:
        yield ", ".join(f"slot {slot}: {times(count)}" for slot, count in sorted(counts.items()))


def _where(cause: Cause) -> Iterable[str]:
    if cause.where:
        yield f"at {cause.where}"


def _replay(faults: list[FaultSeen]) -> Iterable[str]:
    fault, facts = faults[-1], []
    if fault.seed is not None:
        facts.append(f"seed {fault.seed}")
    if fault.last_action is not None:
        facts.append(f"action {fault.last_action}")
    if facts:
        yield f"{'most recently ' if len(faults) > 1 else ''}with {', '.join(facts)}"


def _cost(run: RunHistory, faults: list[FaultSeen]) -> Iterable[str]:
    if not any(fault.during_start for fault in faults):
        yield from _healed(run, faults) if run.heals else _lost(sum(len(fault.slots) for fault in faults))
    pauses = [pause for fault in faults if (pause := run.back_after(fault)) is not None]
    if pauses:
        yield f"back after {seconds_in_words(statistics.median(pauses))}"


def _healed(run: RunHistory, faults: list[FaultSeen]) -> Iterable[str]:
    outcomes = run.outcomes_of(faults)
    healed = sum(isinstance(outcome, SlotHealed) for outcome in outcomes)
    if healed:
        yield f"{plural(healed, 'slot')} healed"
    if len(outcomes) > healed:
        yield from _lost(len(outcomes) - healed)


def _lost(episodes: int) -> Iterable[str]:
    yield f"{plural(episodes, 'episode')} lost"
