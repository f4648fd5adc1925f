"""Everything about a run but its faults: how it ended, quarantine, memory, slow slots, where the time went."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ninelives.cli.diagnosis.finding import Finding, Severity
from ninelives.cli.diagnosis.run_history import RunHistory
from ninelives.events import KeeperLost, RestartScheduled, SlotQuarantined, WorkerReady, WorkerRecycled
from ninelives.view.memory_growth import GREW_BYTES, GREW_FACTOR, memory_limit
from ninelives.view.words import bytes_in_words, plural, seconds_in_words, slots_in_words, times

STRAGGLER_STEPS, STRAGGLER_S = 50, 1e-4
"""The median of fewer steps is chance, and a few microseconds do not matter."""

HEAVY_TAIL = 20.0
"""A 99th percentile this many times the median delays every full batch."""

MOSTLY, IDLE = 0.5, 0.1
"""Shares of a worker's time worth reporting: more than the first in resets, less than the second in any work."""

ENOUGH_STEPS = 1000
"""Fewer steps than this say nothing about where the time goes."""


def overview(run: RunHistory) -> list[str]:
    """What ran, how long, and how it ended."""
    started, closed = run.started, run.closed
    lines = []
    if started is not None:
        path = "native" if started.native else "pure Python"
        lines.append(
            f"{started.env}: {plural(started.num_envs, 'slot')}, {plural(started.workers, 'worker')} "
            f"({started.workers_because}), {started.start_method}, {path} path, on_fault={started.on_fault!r}, "
            f"up after {seconds_in_words(started.seconds)}"
        )
    how = f"closed in {seconds_in_words(closed.seconds)}" if closed else "no end recorded"
    steps = f"{plural(closed.steps, 'step')}, " if closed else ""
    restarts = len(run.all(RestartScheduled))
    lines.append(
        f"{seconds_in_words(run.seconds)}, {steps}{plural(len(run.faults), 'fault')}, "
        f"{plural(restarts, 'restart')}, {how}"
    )
    return lines


def health_findings(run: RunHistory) -> list[Finding]:
    """The findings of all checks."""
    return [finding for check in _CHECKS for finding in check(run)]


def _never_started(run: RunHistory) -> Iterable[Finding]:
    if run.started is None:
        ready = len(run.all(WorkerReady))
        yield Finding(
            Severity.PROBLEM,
            "the pool never started",
            (f"{plural(ready, 'worker')} became ready",),
            ("see the faults for why workers did not start; without faults, the program ended before they did",),
        )


def _quarantined(run: RunHistory) -> Iterable[Finding]:
    for event in run.all(SlotQuarantined):
        yield Finding(
            Severity.PROBLEM,
            f"{slots_in_words(event.slots)} quarantined after {plural(event.restarts, 'fault')}",
            (f"{seconds_in_words(run.since_begin(event))} after the start; its rows are masked from then on",),
            ("fix the fault first; max_restarts_per_slot allows more restarts within restart_window_s",),
        )


def _keeper_lost(run: RunHistory) -> Iterable[Finding]:
    lost = run.all(KeeperLost)
    if lost:
        yield Finding(
            Severity.PROBLEM,
            f"the process that keeps the workers died, {times(len(lost))}, and every worker with it",
            (),
            ("it was killed, or the system ran out of memory: run fewer workers; see `dmesg`",),
        )


def _no_end(run: RunHistory) -> Iterable[Finding]:
    if run.closed is None and run.started is not None:
        yield Finding(
            Severity.WARNING,
            "the run has no recorded end: it is still running, or its program was killed",
            (),
            ("use the pool as a context manager, or call close(); `dmesg` lists out-of-memory kills",),
        )


def _killed_at_close(run: RunHistory) -> Iterable[Finding]:
    if run.closed is not None and run.closed.killed:
        yield Finding(
            Severity.WARNING,
            f"{plural(run.closed.killed, 'worker')} did not close in time and had to be killed",
            (),
            ("raise close_timeout_s if the environments save something in close(), or make their close() quicker",),
        )


def _grew(run: RunHistory) -> Iterable[Finding]:
    for worker, slots in sorted(_by_worker(run).items()):
        initial, size = run.sizes_of(worker), _number(slots[0], "rss_bytes")
        if initial and size > GREW_FACTOR * initial[-1] and size - initial[-1] > GREW_BYTES:
            yield Finding(
                Severity.WARNING,
                f"worker {worker} grew from {bytes_in_words(initial[-1])} to {bytes_in_words(size)}",
                (),
                (f"if it keeps growing, max_rss_bytes={memory_limit(size):_} replaces it before it gets that large",),
            )


def _stragglers(run: RunHistory) -> Iterable[Finding]:
    slow = [n for n in run.slot_numbers if n.get("straggler") is True and _matters(n)]
    if slow:
        typical = statistics.median(_number(numbers, "step_p50_s") for numbers in run.slot_numbers)
        facts = (f"{seconds_in_words(_number(n, 'step_p50_s'))} in slot {n['slot']}" for n in slow[:4])
        verb = "lags" if len(slow) == 1 else "lag"
        yield Finding(
            Severity.WARNING,
            f"{slots_in_words(n['slot'] for n in slow)} {verb} behind: a full batch waits for the slowest slot",
            (f"a median step takes {', '.join(facts)}, and {seconds_in_words(typical)} in the whole pool",),
            ("use first-ready batches: batch_size below num_envs",),
        )


def _matters(numbers: Mapping[str, Any]) -> bool:
    """Whether a slow slot is certain and slow enough to matter."""
    enough = _number(numbers, "steps") >= STRAGGLER_STEPS and _number(numbers, "step_p50_s") >= STRAGGLER_S
    return enough and isinstance(numbers.get("slot"), int)


def _heavy_tail(run: RunHistory) -> Iterable[Finding]:
    stepped = [n for n in run.slot_numbers if _number(n, "step_p50_s") > 0 and _number(n, "steps") >= ENOUGH_STEPS]
    if not stepped:
        return
    median, slowest = (statistics.median(_number(n, key) for n in stepped) for key in ("step_p50_s", "step_p99_s"))
    if slowest > HEAVY_TAIL * median and slowest > 1e-3:
        yield Finding(
            Severity.NOTE,
            f"one step in a hundred takes {seconds_in_words(slowest)}, the median {seconds_in_words(median)}",
            (),
            ("full batches wait for the slowest slot; batch_size below num_envs takes the first ready ones",),
        )


def _where_time_goes(run: RunHistory) -> Iterable[Finding]:
    shares = [_shares(slots) for slots in _by_worker(run).values()]
    if not shares or sum(_number(n, "steps") for n in run.slot_numbers) < ENOUGH_STEPS:
        return
    step, reset, construct = (statistics.fmean(share) for share in zip(*shares, strict=True))
    if reset > MOSTLY:
        title = f"resets take {reset:.0%} of the workers' time"
        yield Finding(Severity.NOTE, title, (), ("check what reset() loads every time",))
    if construct > MOSTLY:
        title = f"constructing environments takes {construct:.0%} of the workers' time"
        yield Finding(Severity.NOTE, title, (), ("find out why workers are restarted",))
    if (busy := step + reset + construct) < IDLE:
        yield Finding(
            Severity.NOTE,
            f"workers were inside their environments {busy:.0%} of the time and waited for actions otherwise",
            (),
            ("the program that chooses actions is the bottleneck: use fewer workers, or more slots per batch",),
        )


def _shares(slots: list[Mapping[str, Any]]) -> tuple[float, float, float]:
    """Shares of one worker's time in step, reset and construct; its slots take turns, so their shares add up."""
    phases = ("step", "reset", "construct")
    step, reset, construct = (sum(_number(n, f"share_{phase}") for n in slots) for phase in phases)
    return step, reset, construct


def _recycled(run: RunHistory) -> Iterable[Finding]:
    recycled = run.all(WorkerRecycled)
    if recycled:
        yield Finding(
            Severity.NOTE,
            f"workers were replaced on purpose, {times(len(recycled))}",
            (f"the last one was worker {recycled[-1].worker}: {recycled[-1].reason}",),
        )


def _slow_path(run: RunHistory) -> Iterable[Finding]:
    if run.started is not None and not run.started.native:
        yield Finding(
            Severity.NOTE, "the pure-Python path was in use: correct, but slower", (), ("`ninelives info` says why",)
        )


_CHECKS: tuple[Callable[[RunHistory], Iterable[Finding]], ...] = (
    _never_started, _quarantined, _keeper_lost, _no_end, _killed_at_close, _grew, _stragglers, _heavy_tail,
    _where_time_goes, _recycled, _slow_path,
)  # fmt: skip


def _by_worker(run: RunHistory) -> dict[int, list[Mapping[str, Any]]]:
    workers: dict[int, list[Mapping[str, Any]]] = {}
    for numbers in run.slot_numbers:
        if isinstance(numbers.get("worker"), int):
            workers.setdefault(numbers["worker"], []).append(numbers)
    return workers


def _number(numbers: Mapping[str, Any], key: str) -> float:
    value = numbers.get(key)
    return float(value) if isinstance(value, int | float) else 0.0
