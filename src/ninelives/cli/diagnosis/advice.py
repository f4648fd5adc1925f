"""What to change, for each kind of fault, in terms of the pool's settings."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

from ninelives.cli.diagnosis.run_history import RunHistory
from ninelives.events import FaultSeen
from ninelives.supervise.exits import Ending
from ninelives.view.memory_growth import memory_limit
from ninelives.view.words import bytes_in_words

TOGETHER_S = 1.0
"""Faults of different workers this close together have a common cause: the machine."""

GREW = 1.5
"""A worker that died at this many times its initial size was growing."""

_LIMIT = re.compile(r"limit ([\d.]+) s")


def for_cause(run: RunHistory, kind: str, where: str, faults: list[FaultSeen]) -> Iterable[str]:
    """Advice for faults of one cause, the most likely remedy first."""
    last = faults[-1]
    if last.during_start:
        yield from _never_started(last)
    elif kind == "hung":
        yield from _hung(faults, where)
    elif kind == "crashed":
        yield from _crashed(run, last)
    elif kind == "raised":
        yield "the environment raised this exception: fix it at that line, or catch it there and end the episode"
    elif kind == "bad_data":
        yield "correct the environment's spaces or its data; check='shape' accepts NaN"
    if len(faults) > 1 and not last.during_start:
        yield from _repeated(faults)
    if not last.during_start and last.culprit is not None and len(last.slots) > 1:
        suffered = "had to be healed too" if run.heals else "lost their episodes too"
        yield f"the other slots of its worker {suffered}: with more workers, each fault affects fewer slots"


def _never_started(fault: FaultSeen) -> Iterable[str]:
    if fault.traceback:
        yield "most likely a mistake in the environment's settings: the line above raised before the first observation"
    elif "hung" in fault.summary:
        yield from _slow_start(fault.phase, _limit(fault))
    else:
        yield Ending(fault.signal, fault.exit_code).advice


def _hung(faults: list[FaultSeen], where: str) -> Iterable[str]:
    last = faults[-1]
    if _several_workers_at_once(faults):
        yield "several workers stopped within a second: the machine was overloaded or suspended; run fewer workers"
    if last.phase == "idle":
        yield "the process did not run: it was stopped (SIGSTOP, a debugger) or got no CPU time; run fewer workers"
    elif last.phase in ("import", "construct"):
        yield from _slow_start(last.phase, _limit(last))
    else:
        if where:
            yield "if that line can wait forever (a socket, a lock, an endless loop), give it a timeout of its own"
        limit = f" above {_limit(last)} s" if _limit(last) else ""
        # One step of a replay has the time limit of a reset; restore_timeout_s covers the whole replay.
        phase = "reset" if last.phase == "restore" else last.phase
        yield f"if it is only slow, raise {phase}_timeout_s{limit}"


def _slow_start(phase: str, limit: str) -> Iterable[str]:
    above = f" above {limit} s" if limit else ""
    if phase == "import":
        yield "list the slow modules in preload=[...]: they are imported once instead of by every worker"
    else:
        yield "start fewer at once: start_concurrency=1, or start_lock='NAME.lock' if two can never start together"
    yield f"if it is only slow, raise {phase}_timeout_s{above}"


def _crashed(run: RunHistory, fault: FaultSeen) -> Iterable[str]:
    size = run.size_at_death(fault)
    if fault.signal == "SIGKILL":
        held = f" (it held {bytes_in_words(size)})" if size else ""
        yield f"unless you killed it, the system ran out of memory{held}: run fewer workers; see `dmesg`"
    else:
        yield Ending(fault.signal, fault.exit_code).advice
    initial = run.sizes_of(fault.worker)
    if initial and size > GREW * initial[0]:
        grew = f"it grew from {bytes_in_words(initial[0])} to {bytes_in_words(size)}"
        yield f"{grew}: max_rss_bytes={memory_limit(size):_} replaces a worker before it gets that large"


def _repeated(faults: list[FaultSeen]) -> Iterable[str]:
    culprits = {fault.culprit for fault in faults}
    if len(faults) > 2 and len(culprits) == 1 and None not in culprits:
        yield f"it is always slot {culprits.pop()}: look for what only this slot has (its seed, level, port or file)"
    actions = {repr(fault.last_action) for fault in faults}
    if len(actions) == 1 and faults[-1].last_action is not None:
        yield f"it is always action {faults[-1].last_action}: reproduce it with that action and the seed above"


def _several_workers_at_once(faults: list[FaultSeen]) -> bool:
    return any(b.at_s - a.at_s < TOGETHER_S and a.worker != b.worker for a, b in pairwise(faults))


def _limit(fault: FaultSeen) -> str:
    found = _LIMIT.search(fault.summary)
    return found[1] if found else ""
