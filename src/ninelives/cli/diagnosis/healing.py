"""How faults were resolved: which slots were healed, how fast and from where, and which were not, and why."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from itertools import chain
from typing import TypeVar

from ninelives.cli.diagnosis.finding import Finding, Severity
from ninelives.cli.diagnosis.run_history import RunHistory
from ninelives.events import FaultSeen, HealFailed, ReplayProgress, SlotHealed, SpareStepped, WorkerReady
from ninelives.view.stacks import fault_place
from ninelives.view.words import plural, seconds_in_words, slots_in_words, times

MANY_SLOTS = 6
"""With more slots than this, the lines for each are left out."""

SLOW_S = 1.0
"""Healing that takes longer than this deserves advice: a full batch waits for it."""

LONG_REPLAY = 1000
"""Replays longer than this would gain from snapshots."""

SomeEvent = TypeVar("SomeEvent", SlotHealed, ReplayProgress)


def healing_findings(run: RunHistory) -> list[Finding]:
    """The findings of all checks."""
    return [*_cut(run), *_unfinished(run), *_healed(run), *_spares(run)]


# ---- healed ---------------------------------------------------------------------------------------------------------


def _healed(run: RunHistory) -> Iterable[Finding]:
    healed = run.all(SlotHealed)
    if healed:
        slots = _by_slot(healed)
        each = [_summary(events) for _, events in sorted(slots.items())] if 1 < len(slots) <= MANY_SLOTS else []
        yield Finding(Severity.NOTE, _summary(healed), (*each, *_slowest(healed)), tuple(_faster(run, healed)))


def _summary(healed: list[SlotHealed]) -> str:
    slots = {slot for event in healed for slot in event.slots}
    took = seconds_in_words(statistics.median(event.seconds for event in healed))
    took = f"median {took}" if len(healed) > 1 else took
    replayed = plural(sum(event.replayed for event in healed), "step")
    was = "was" if len(slots) == 1 else "were"
    return f"{slots_in_words(slots)} {was} healed {times(len(healed))}, {took}, {replayed} replayed"


def _slowest(healed: list[SlotHealed]) -> Iterable[str]:
    slowest = max(healed, key=lambda event: event.seconds)
    if slowest.seconds > SLOW_S:
        began = f"a snapshot at step {slowest.from_step}" if slowest.from_step else "the episode's beginning"
        steps = plural(slowest.replayed, "step")
        took = seconds_in_words(slowest.seconds)
        yield f"the slowest took {took}: {slots_in_words(slowest.slots)}, {steps} replayed from {began}"


def _faster(run: RunHistory, healed: list[SlotHealed]) -> Iterable[str]:
    slow = [event for event in healed if event.seconds > SLOW_S]
    if not slow:
        return
    if any(event.replayed > LONG_REPLAY and not event.from_step for event in slow):
        yield "long replays: if the environment has save_state() and load_state(), only the last steps are replayed"
    starts = [ready.seconds for ready in run.all(WorkerReady) if ready.generation == 1]
    if starts and statistics.median(starts) > SLOW_S and not run.all(SpareStepped):
        yield f"a worker needs {seconds_in_words(statistics.median(starts))} to start: spares=1 keeps one ready"


def _spares(run: RunHistory) -> Iterable[Finding]:
    stepped = run.all(SpareStepped)
    if stepped:
        workers = sorted({event.worker for event in stepped if event.worker is not None})
        names = f"worker{'' if len(workers) == 1 else 's'} {', '.join(map(str, workers))}"
        yield Finding(Severity.NOTE, f"a spare worker replaced {names}, {times(len(stepped))}")


# ---- unfinished -----------------------------------------------------------------------------------------------------


def _unfinished(run: RunHistory) -> Iterable[Finding]:
    """Replays that were under way when the event file ended."""
    for slot, progress in sorted(_by_slot(run.all(ReplayProgress)).items()):
        last = progress[-1]
        if not any(slot in event.slots and event.at_s >= last.at_s for event in run.outcomes):
            yield Finding(
                Severity.WARNING,
                f"slot {slot} was still replaying when the event file ended: {last.done:,} of {last.total:,} steps",
                (f"{seconds_in_words(run.since_begin(last))} after the start",),
                (
                    "wait for it; full batches wait too, first-ready batches (batch_size below num_envs) do not",
                    "save_state() and load_state() make replays short; restore_timeout_s limits their time",
                ),
            )


# ---- cut ------------------------------------------------------------------------------------------------------------


def _cut(run: RunHistory) -> Iterable[Finding]:
    by_reason: dict[str, list[HealFailed]] = {}
    for event in run.all(HealFailed):
        by_reason.setdefault(event.reason, []).append(event)
    checks = {"diverged": _diverged, "failed": _diverged, "poison": _poison, "gave_up": _gave_up, "reset": _reset}
    findings = (checks.get(reason, _cannot)(run, failed) for reason, failed in by_reason.items())
    return chain.from_iterable(findings)


def _diverged(run: RunHistory, failed: list[HealFailed]) -> Iterable[Finding]:
    """Either a row that differs or a replay that could not be finished, according to the event's detail."""
    differs = [event for event in failed if "differs" in event.detail]
    broke = [event for event in failed if "differs" not in event.detail]
    if differs:
        yield Finding(
            Severity.PROBLEM,
            _first_of(differs, lambda event: f"diverged at step {event.step}") + ": not deterministic",
            ("the same seed and actions gave another row, so the episode was cut rather than continued wrongly",),
            (
                "`ninelives check ENV` looks for the cause, `ninelives chaos ENV` proves that it is fixed",
                "seed_episodes=True, if the environment uses a generator that only reset(seed=...) seeds",
                "on_fault='cut', if it cannot be deterministic: then no time is spent on replays",
            ),
        )
    if broke:
        yield Finding(
            Severity.PROBLEM,
            _first_of(broke, lambda event: f"could not be replayed beyond step {event.step}"),
            ("the environment raised, or the replay took longer than restore_timeout_s: see the worker's log",),
            ("raise restore_timeout_s, or make replays short with save_state() and load_state()",),
        )


def _poison(run: RunHistory, failed: list[HealFailed]) -> Iterable[Finding]:
    by_action: dict[str, list[HealFailed]] = {}
    for event in failed:
        in_reset = (fault := run.fault_before(event)) is not None and fault.phase == "reset"
        name = "the autoreset" if in_reset else f"action {event.action}"
        by_action.setdefault(name, []).append(event)
    for name, events in by_action.items():
        last = run.fault_before(events[-1])
        yield Finding(
            Severity.PROBLEM,
            f"{name} breaks the environment every time: {_places(events)}",
            ("tried once more after a replay, with the same result", *(_cause(last) if last else ())),
            ("reproduce it with the same seed and actions outside the pool, and fix it there",),
        )


def _cause(fault: FaultSeen) -> Iterable[str]:
    yield fault.summary.splitlines()[0]
    if place := fault_place(fault):
        yield f"at {place}"


def _gave_up(run: RunHistory, failed: list[HealFailed]) -> Iterable[Finding]:
    yield Finding(
        Severity.PROBLEM,
        _first_of(failed, lambda event: f"was given up at step {event.step}"),
        (failed[-1].detail,),
        ("something kills the workers, most likely the system for lack of memory: run fewer; see `dmesg`",),
    )


def _reset(run: RunHistory, failed: list[HealFailed]) -> Iterable[Finding]:
    yield Finding(
        Severity.PROBLEM,
        f"{slots_in_words(slot for event in failed for slot in event.slots)} could not be healed, "
        f"{times(len(failed))}: reset() leaves something of earlier episodes",
        ("an episode of a used environment goes another way in a new one, so episodes were cut",),
        (
            "fresh_env_every_episode=True builds a new environment for every episode; then it heals exactly",
            "or clear everything in reset(); `ninelives check ENV` shows the first row that differs",
        ),
    )


def _cannot(run: RunHistory, failed: list[HealFailed]) -> Iterable[Finding]:
    for detail in dict.fromkeys(event.detail for event in failed):
        alike = [event for event in failed if event.detail == detail]
        yield Finding(
            Severity.PROBLEM,
            f"{slots_in_words(slot for event in alike for slot in event.slots)} could not be healed, "
            f"{times(len(alike))}: {detail}",
            ("the episode was cut; see the limits in docs/faults.md",),
        )


# ---- words ----------------------------------------------------------------------------------------------------------


def _first_of(failed: list[HealFailed], did: Callable[[HealFailed], str]) -> str:
    """``slot 2 diverged at step 17``, or with how many more there were."""
    first = failed[0]
    words = f"{slots_in_words(first.slots)} {did(first)}"
    if len(failed) == 1:
        return words
    slots = slots_in_words(slot for event in failed for slot in event.slots)
    return f"{words} (the first of {len(failed)} times, in {slots})"


def _places(failed: list[HealFailed]) -> str:
    """``slot 1 at step 40``, for the first few."""
    places = [f"{slots_in_words(event.slots)} at step {event.step}" for event in failed[:MANY_SLOTS]]
    more = len(failed) - len(places)
    return ", ".join(places) + (f" and {times(more)} more" if more else "")


def _by_slot(events: list[SomeEvent]) -> dict[int, list[SomeEvent]]:
    slots: dict[int, list[SomeEvent]] = {}
    for event in events:
        for slot in event.slots:
            slots.setdefault(slot, []).append(event)
    return slots
