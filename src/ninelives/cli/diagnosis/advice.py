"""What to change, for each way of breaking: things a user can do, in the words of the pool's settings."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

from ninelives.cli.diagnosis.run import Run
from ninelives.events import FaultSeen
from ninelives.supervise.exits import Ending
from ninelives.view.words import bytes_in_words

TOGETHER_S = 1.0
"""Faults of different workers this close to each other have one reason: the machine."""

GREW = 1.5
"""A worker that died this many times its size at start was growing."""

_LIMIT = re.compile(r"limit ([\d.]+) s")


def for_cause(run: Run, kind: str, where: str, faults: list[FaultSeen]) -> Iterable[str]:
    """Advice for faults of one cause, the most likely cure first."""
    last = faults[-1]
    if last.during_start:
        yield from _never_started(last)
    elif kind == "hung":
        yield from _hung(faults, where)
    elif kind == "crashed":
        yield from _crashed(run, last)
    elif kind == "raised":
        yield "the exception is the environment's own: mend it at that line, or catch it there and end the episode"
    elif kind == "bad_data":
        yield "correct the environment's spaces or its data; check='shape' accepts NaN"
    if len(faults) > 1 and not last.during_start:
        yield from _repeated(faults)
    if not last.during_start and last.culprit is not None and len(last.slots) > 1:
        suffered = "had to be healed with it" if run.heals else "lost their episodes with it"
        yield f"its neighbours {suffered}: more workers mean fewer slots gone with each"


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
        yield "the process did not get to run: stopped from outside (SIGSTOP, a debugger) or starved; run fewer workers"
    elif last.phase in ("import", "construct"):
        yield from _slow_start(last.phase, _limit(last))
    else:
        if where:
            yield "if that line can wait for ever (a socket, a lock, a loop without an end), give it a limit of its own"
        limit = f" above {_limit(last)} s" if _limit(last) else ""
        # One step of a replay has the time of a reset; restore_timeout_s is for the whole of it.
        phase = "reset" if last.phase == "restore" else last.phase
        yield f"if it is only slow, raise {phase}_timeout_s{limit}"


def _slow_start(phase: str, limit: str) -> Iterable[str]:
    above = f" above {limit} s" if limit else ""
    if phase == "import":
        yield "name the slow modules in preload=[...]: they are imported once, not by every worker"
    else:
        yield "let fewer start at once: start_concurrency=1, or start_lock='NAME.lock' if two can never start together"
    yield f"if it is only slow, raise {phase}_timeout_s{above}"


def _crashed(run: Run, fault: FaultSeen) -> Iterable[str]:
    size = run.size_at_death(fault)
    if fault.signal == "SIGKILL":
        held = f" (it held {bytes_in_words(size)})" if size else ""
        yield f"if nobody killed it, the system ran out of memory{held}: run fewer workers; `dmesg` tells for certain"
    else:
        yield Ending(fault.signal, fault.exit_code).advice
    born = run.sizes_of(fault.worker)
    if born and size > GREW * born[0]:
        grew = f"it grew from {bytes_in_words(born[0])} to {bytes_in_words(size)}"
        yield f"{grew}: max_rss_bytes={int(0.8 * size):_} replaces a worker before it gets that big"


def _repeated(faults: list[FaultSeen]) -> Iterable[str]:
    culprits = {fault.culprit for fault in faults}
    if len(faults) > 2 and len(culprits) == 1 and None not in culprits:
        yield f"it is always slot {culprits.pop()}: look at what only this slot has (its seed, level, port or file)"
    actions = {repr(fault.last_action) for fault in faults}
    if len(actions) == 1 and faults[-1].last_action is not None:
        yield f"it is always action {faults[-1].last_action}: reproduce it with that action and the seed above"


def _several_workers_at_once(faults: list[FaultSeen]) -> bool:
    return any(b.at_s - a.at_s < TOGETHER_S and a.worker != b.worker for a, b in pairwise(faults))


def _limit(fault: FaultSeen) -> str:
    found = _LIMIT.search(fault.summary)
    return found[1] if found else ""
