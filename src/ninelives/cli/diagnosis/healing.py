"""What became of broken slots: who was brought back, how fast, from where, and who could not be, and why."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from itertools import chain
from typing import TypeVar

from ninelives.cli.diagnosis.finding import Finding, Severity
from ninelives.cli.diagnosis.run import Run
from ninelives.events import HealFailed, ReplayProgress, SlotHealed, SpareStepped, WorkerReady
from ninelives.view.words import plural, seconds_in_words, slots_in_words, times

MANY_SLOTS = 6
"""Beyond this many slots a line for each is not worth its place."""

SLOW_S = 1.0
"""A full batch that waits longer than this for a slot to come back is worth advice."""

LONG_REPLAY = 1000
"""Steps of a replay that a snapshot would shorten."""

SomeEvent = TypeVar("SomeEvent", SlotHealed, ReplayProgress)


def healing_findings(run: Run) -> list[Finding]:
    """Every check that has something to say."""
    return [*_cut(run), *_unfinished(run), *_healed(run), *_spares(run)]


# ---- brought back ---------------------------------------------------------------------------------------------------


def _healed(run: Run) -> Iterable[Finding]:
    healed = run.all(SlotHealed)
    if healed:
        slots = _by_slot(healed)
        each = [_tale(events) for _, events in sorted(slots.items())] if 1 < len(slots) <= MANY_SLOTS else []
        yield Finding(Severity.NOTE, _tale(healed), (*each, *_slowest(healed)), tuple(_faster(run, healed)))


def _tale(healed: list[SlotHealed]) -> str:
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


def _faster(run: Run, healed: list[SlotHealed]) -> Iterable[str]:
    slow = [event for event in healed if event.seconds > SLOW_S]
    if not slow:
        return
    if any(event.replayed > LONG_REPLAY and not event.from_step for event in slow):
        yield "long replays: let the environment offer save_state() and load_state(), then only the last steps are made"
    starts = [ready.seconds for ready in run.all(WorkerReady) if ready.generation == 1]
    if starts and statistics.median(starts) > SLOW_S and not run.all(SpareStepped):
        yield f"a worker needs {seconds_in_words(statistics.median(starts))} to start: spares=1 keeps one built"


def _spares(run: Run) -> Iterable[Finding]:
    stepped = run.all(SpareStepped)
    if stepped:
        workers = sorted({event.worker for event in stepped if event.worker is not None})
        names = f"worker{'' if len(workers) == 1 else 's'} {', '.join(map(str, workers))}"
        yield Finding(Severity.NOTE, f"a spare stepped in for {names}, {times(len(stepped))}")


# ---- on the way -----------------------------------------------------------------------------------------------------


def _unfinished(run: Run) -> Iterable[Finding]:
    """Replays that were under way when the record ended."""
    for slot, told in sorted(_by_slot(run.all(ReplayProgress)).items()):
        last = told[-1]
        if not any(slot in event.slots and event.at_s >= last.at_s for event in run.outcomes):
            yield Finding(
                Severity.WARNING,
                f"slot {slot} was still being replayed when the record ended: {last.done:,} of {last.total:,} steps",
                (f"{seconds_in_words(run.since_begin(last))} after the start",),
                (
                    "wait for it; a full batch waits too, and batch_size below num_envs does not",
                    "save_state() and load_state() make replays short; restore_timeout_s says how long one may take",
                ),
            )


# ---- cut ------------------------------------------------------------------------------------------------------------


def _cut(run: Run) -> Iterable[Finding]:
    by_reason: dict[str, list[HealFailed]] = {}
    for event in run.all(HealFailed):
        by_reason.setdefault(event.reason, []).append(event)
    tell = {"diverged": _diverged, "poison": _poison, "gave_up": _gave_up}
    findings = (tell.get(reason, _cannot)(run, failed) for reason, failed in by_reason.items())
    return chain.from_iterable(findings)


def _diverged(run: Run, failed: list[HealFailed]) -> Iterable[Finding]:
    """Both a row that differs and a replay that could not be finished; the event's detail tells which."""
    differs = [event for event in failed if "differs" in event.detail]
    broke = [event for event in failed if event not in differs]
    if differs:
        yield Finding(
            Severity.PROBLEM,
            _told_of(differs, lambda event: f"diverged at step {event.step}") + ": not deterministic",
            ("the same seed and actions gave another row, so the episode was cut instead of going on wrongly",),
            (
                "`ninelives check ENV` looks for the reason, `ninelives chaos ENV` proves that it is gone",
                "seed_episodes=True, if the environment draws from a generator that only reset(seed=...) sets",
                "on_fault='cut', if it cannot be deterministic: then nothing is replayed in vain",
            ),
        )
    if broke:
        yield Finding(
            Severity.PROBLEM,
            _told_of(broke, lambda event: f"could not be replayed beyond step {event.step}"),
            ("the environment raised, or the replay took longer than restore_timeout_s: the worker's log tells which",),
            ("raise restore_timeout_s, or make replays short with save_state() and load_state()",),
        )


def _poison(run: Run, failed: list[HealFailed]) -> Iterable[Finding]:
    by_action: dict[str, list[HealFailed]] = {}
    for event in failed:
        in_reset = (fault := run.fault_before(event)) is not None and fault.phase == "reset"
        name = "the autoreset" if in_reset else f"action {event.action}"
        by_action.setdefault(name, []).append(event)
    for name, events in by_action.items():
        last = run.fault_before(events[-1])
        yield Finding(
            Severity.PROBLEM,
            f"{name} is poison in {_places(events)}",
            ("tried once more after a replay, and it broke again", *([last.summary.splitlines()[0]] if last else [])),
            ("the same seed and actions break it every time: reproduce it alone, and mend it there",),
        )


def _gave_up(run: Run, failed: list[HealFailed]) -> Iterable[Finding]:
    yield Finding(
        Severity.PROBLEM,
        _told_of(failed, lambda event: f"was given up at step {event.step}"),
        (failed[-1].detail,),
        ("somebody kills the workers, most likely the system for lack of memory: run fewer; `dmesg` tells",),
    )


def _cannot(run: Run, failed: list[HealFailed]) -> Iterable[Finding]:
    for detail in dict.fromkeys(event.detail for event in failed):
        alike = [event for event in failed if event.detail == detail]
        yield Finding(
            Severity.PROBLEM,
            f"{slots_in_words(slot for event in alike for slot in event.slots)} could not be healed, "
            f"{times(len(alike))}: {detail}",
            ("the episode was cut; see the limits in docs/faults.md",),
        )


# ---- words ----------------------------------------------------------------------------------------------------------


def _told_of(failed: list[HealFailed], did: Callable[[HealFailed], str]) -> str:
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
