"""Everything about a run that is not a fault: how it ended, who stayed out, memory, stragglers, where the time went."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ninelives.cli.diagnosis.finding import Finding, Severity
from ninelives.cli.diagnosis.run import Run
from ninelives.events import KeeperLost, RestartScheduled, SlotQuarantined, WorkerReady, WorkerRecycled
from ninelives.view.words import bytes_in_words, plural, seconds_in_words, slots_in_words, times

GREW_FACTOR, GREW_BYTES = 1.5, 50_000_000
"""A worker must have grown by both to be suspected of a leak: small processes grow by half while they warm up."""

STRAGGLER_STEPS, STRAGGLER_S = 50, 1e-4
"""A median of fewer steps is chance, and nobody waits for a few microseconds."""

HEAVY_TAIL = 20.0
"""A slowest percent this many times the median is felt in every full batch."""

MOSTLY, IDLE = 0.5, 0.1
"""Shares of a worker's time that are worth a word: more than the one in resets, less than the other in any work."""

ENOUGH_STEPS = 1000
"""Fewer steps than this say nothing about where the time goes."""


def overview(run: Run) -> list[str]:
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
    how = f"closed in {seconds_in_words(closed.seconds)}" if closed else "no end is recorded"
    steps = f"{plural(closed.steps, 'step')}, " if closed else ""
    restarts = len(run.all(RestartScheduled))
    lines.append(
        f"{seconds_in_words(run.seconds)}, {steps}{plural(len(run.faults), 'fault')}, "
        f"{plural(restarts, 'restart')}, {how}"
    )
    return lines


def health_findings(run: Run) -> list[Finding]:
    """Every check that has something to say."""
    return [finding for check in _CHECKS for finding in check(run)]


def _never_up(run: Run) -> Iterable[Finding]:
    if run.started is None:
        ready = len(run.all(WorkerReady))
        yield Finding(
            Severity.PROBLEM,
            "the pool never came up",
            (f"{plural(ready, 'worker')} became ready",),
            ("see why workers did not start; if there is no fault, the program ended before they did",),
        )


def _quarantined(run: Run) -> Iterable[Finding]:
    for event in run.all(SlotQuarantined):
        yield Finding(
            Severity.PROBLEM,
            f"{slots_in_words(event.slots)} was taken out after {plural(event.restarts, 'fault')}",
            (f"{seconds_in_words(run.since_begin(event))} after the start; its rows are masked from then on",),
            ("mend its fault first; max_restarts_per_slot allows more of them within restart_window_s",),
        )


def _keeper_lost(run: Run) -> Iterable[Finding]:
    lost = run.all(KeeperLost)
    if lost:
        yield Finding(
            Severity.PROBLEM,
            f"the process that keeps all workers died, {times(len(lost))}, and every worker with it",
            (),
            ("somebody killed it, or the system ran out of memory: run fewer workers; `dmesg` tells",),
        )


def _no_end(run: Run) -> Iterable[Finding]:
    if run.closed is None and run.started is not None:
        yield Finding(
            Severity.WARNING,
            "the run has no end: it still goes on, or its program was killed",
            (),
            ("use the pool as a context manager, or call close(); `dmesg` tells of out-of-memory kills",),
        )


def _killed_at_close(run: Run) -> Iterable[Finding]:
    if run.closed is not None and run.closed.killed:
        yield Finding(
            Severity.WARNING,
            f"{plural(run.closed.killed, 'worker')} did not close in time and had to be killed",
            (),
            ("raise close_timeout_s if the environments save something in close(), or make their close() quicker",),
        )


def _grew(run: Run) -> Iterable[Finding]:
    for worker, slots in sorted(_by_worker(run).items()):
        born, size = run.sizes_of(worker), _number(slots[0], "rss_bytes")
        if born and size > GREW_FACTOR * born[-1] and size - born[-1] > GREW_BYTES:
            yield Finding(
                Severity.WARNING,
                f"worker {worker} grew from {bytes_in_words(born[-1])} to {bytes_in_words(size)}",
                (),
                (f"if it does not stop, recycle it: max_rss_bytes={int(1.5 * size):_}",),
            )


def _stragglers(run: Run) -> Iterable[Finding]:
    slow = [n for n in run.slot_numbers if n.get("straggler") is True and _is_felt(n)]
    if slow:
        typical = statistics.median(_number(numbers, "step_p50_s") for numbers in run.slot_numbers)
        facts = (f"{seconds_in_words(_number(n, 'step_p50_s'))} in slot {n['slot']}" for n in slow[:4])
        verb = "lags" if len(slow) == 1 else "lag"
        yield Finding(
            Severity.WARNING,
            f"{slots_in_words(n['slot'] for n in slow)} {verb} behind: everybody waits for the slowest in a full batch",
            (f"a median step takes {', '.join(facts)}, and {seconds_in_words(typical)} in the whole pool",),
            ("take the first that are ready: batch_size below num_envs",),
        )


def _is_felt(numbers: Mapping[str, Any]) -> bool:
    """Whether a slow slot is one for certain, and slow enough to matter."""
    enough = _number(numbers, "steps") >= STRAGGLER_STEPS and _number(numbers, "step_p50_s") >= STRAGGLER_S
    return enough and isinstance(numbers.get("slot"), int)


def _heavy_tail(run: Run) -> Iterable[Finding]:
    stepped = [n for n in run.slot_numbers if _number(n, "step_p50_s") > 0 and _number(n, "steps") >= ENOUGH_STEPS]
    if not stepped:
        return
    median, slowest = (statistics.median(_number(n, key) for n in stepped) for key in ("step_p50_s", "step_p99_s"))
    if slowest > HEAVY_TAIL * median and slowest > 1e-3:
        yield Finding(
            Severity.NOTE,
            f"one step in a hundred takes {seconds_in_words(slowest)}, the median {seconds_in_words(median)}",
            (),
            ("full batches wait for the slowest slot: batch_size below num_envs takes the first that are ready",),
        )


def _where_time_goes(run: Run) -> Iterable[Finding]:
    shares = [_shares(slots) for slots in _by_worker(run).values()]
    if not shares or sum(_number(n, "steps") for n in run.slot_numbers) < ENOUGH_STEPS:
        return
    step, reset, construct = (statistics.fmean(share) for share in zip(*shares, strict=True))
    if reset > MOSTLY:
        words = f"resets take {reset:.0%} of the workers' time"
        yield Finding(Severity.NOTE, words, (), ("look for what reset loads anew",))
    if construct > MOSTLY:
        words = f"building environments takes {construct:.0%} of the workers' time"
        yield Finding(Severity.NOTE, words, (), ("look for the reason of the restarts",))
    if (busy := step + reset + construct) < IDLE:
        yield Finding(
            Severity.NOTE,
            f"workers were inside their environments {busy:.0%} of the time, and waited for actions otherwise",
            (),
            ("the program that chooses actions is the slower side: fewer workers would do, more slots cost it little",),
        )


def _shares(slots: list[Mapping[str, Any]]) -> tuple[float, float, float]:
    """Shares of one worker's time in step, reset and construct: its slots take turns, so theirs add up."""
    phases = ("step", "reset", "construct")
    step, reset, construct = (sum(_number(n, f"share_{phase}") for n in slots) for phase in phases)
    return step, reset, construct


def _recycled(run: Run) -> Iterable[Finding]:
    recycled = run.all(WorkerRecycled)
    if recycled:
        yield Finding(
            Severity.NOTE,
            f"workers were replaced on purpose, {times(len(recycled))}",
            (f"the last one was worker {recycled[-1].worker}: {recycled[-1].reason}",),
        )


def _slow_path(run: Run) -> Iterable[Finding]:
    if run.started is not None and not run.started.native:
        yield Finding(
            Severity.NOTE, "the pure-Python path was in use: correct, but slower", (), ("`ninelives info` says why",)
        )


_CHECKS: tuple[Callable[[Run], Iterable[Finding]], ...] = (
    _never_up, _quarantined, _keeper_lost, _no_end, _killed_at_close, _grew, _stragglers, _heavy_tail, _where_time_goes,
    _recycled, _slow_path,
)  # fmt: skip


def _by_worker(run: Run) -> dict[int, list[Mapping[str, Any]]]:
    workers: dict[int, list[Mapping[str, Any]]] = {}
    for numbers in run.slot_numbers:
        if isinstance(numbers.get("worker"), int):
            workers.setdefault(numbers["worker"], []).append(numbers)
    return workers


def _number(numbers: Mapping[str, Any], key: str) -> float:
    value = numbers.get(key)
    return float(value) if isinstance(value, int | float) else 0.0
