"""Puts together what is known about a fault: control words, last words, the log's end, the way the process ended.

Reads only; the dead worker's memory and letters are still there.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ninelives.errors import Fault
from ninelives.spec.phase import Phase
from ninelives.supervise.exits import Ending

BEFORE_BYTES, STACK_BYTES, SEARCH_BYTES = 1500, 6000, 1 << 18
"""Of a log: what led to the end, the stack itself (innermost frame first), and how far back a stack is looked for."""

_STACKS = (b"Fatal Python error", b"Current thread 0x")
"""How a stack begins in a log: after a crash, or when one was asked for."""


@dataclass(frozen=True)
class Scene:
    """Where and when something went wrong."""

    worker: int
    generation: int
    pid: int | None
    slots: tuple[int, ...]
    culprit: int | None
    phase: Phase
    seed: int | None
    last_action: Any
    log: Path
    log_from: int
    log_stays: bool


def log_tail(path: Path, start: int = 0) -> str:
    """The end of a log, from ``start`` at the earliest; if a stack stands there, its beginning rather than its end."""
    try:
        with path.open("rb") as log:
            size = os.fstat(log.fileno()).st_size
            begin = start if start <= size else 0  # the log was cut short in between
            log.seek(max(begin, size - SEARCH_BYTES))
            text = log.read()
    except OSError:
        return ""
    stack = next((at for mark in _STACKS if (at := text.rfind(mark)) >= 0), None)
    begin, end = (-STACK_BYTES, None) if stack is None else (max(0, stack - BEFORE_BYTES), stack + STACK_BYTES)
    return text[begin:end].decode(errors="replace").strip()


def crashed(scene: Scene, ending: Ending, rss_bytes: int, limit_bytes: int) -> Fault:
    """The process is gone and nobody asked it to go."""
    summary = ending.describe(rss_bytes, limit_bytes) + f" during {scene.phase.name.lower()}"
    return _fault("crashed", summary, scene, ending=ending, advice=ending.advice)


def hung(scene: Scene, late_s: float, limit_s: float) -> Fault:
    """The phase took too long; the stack is at the end of the log."""
    name = scene.phase.name.lower()
    doing = "did not answer a request" if scene.phase is Phase.IDLE else f"hung in {name}"
    key = {Phase.IDLE: "step", Phase.RESTORE: "reset"}.get(scene.phase, name)
    advice = f"the stack shows where; if it is only slow, raise {key}_timeout_s"
    return _fault("hung", f"{doing} for {limit_s + late_s:.1f} s (limit {limit_s:g} s)", scene, advice=advice)


def never_started(scene: Scene, words: Mapping[str, Any] | None, cause: Fault, attempts: int) -> Fault:
    """No environment of this worker ever gave an observation."""
    tried = f"{attempts} start{'s' if attempts > 1 else ''}"
    if words is None:
        ending = Ending(cause.signal, cause.exit_code)
        return _fault("start", f"never started: {cause.summary}", scene, ending, advice=cause.advice, tried=tried)
    summary = f"never started: {words['summary']} during {words['phase']}"
    advice = "this is most likely a mistake in the environment's settings; the traceback names the line"
    fault = _fault("start", summary, _in_phase(scene, words), None, advice=advice, tried=tried, **_said(words))
    # The worker printed the same traceback; what it said before that is the rest. A temporary log is gone by now.
    rest = fault.stderr_tail.replace(words["traceback"].strip(), "").strip()
    return dataclasses.replace(fault, stderr_tail=rest, log_path=fault.log_path if scene.log_stays else None)


def raised(kind: str, scene: Scene, words: Mapping[str, Any]) -> Fault:
    """The environment raised, or returned what its space does not allow."""
    verb = "raised" if kind == "raised" else "returned bad data:"
    advice = (
        "the traceback is the environment's own"
        if kind == "raised"
        else "correct the environment's spaces or its data; check='shape' accepts NaN"
    )
    summary = f"{verb} {words['summary']} in {words['phase']}"
    return _fault(kind, summary, _in_phase(scene, words), None, advice=advice, **_said(words))


def lost_with_keeper(scene: Scene) -> Fault:
    """The keeper died and took all workers along: no environment's doing."""
    advice = "somebody killed the keeper, or the system ran out of memory; see `dmesg`"
    nobody = dataclasses.replace(scene, culprit=None)
    return _fault("crashed", "ended together with the keeper of all workers", nobody, advice=advice)


def not_moved(scene: Scene, tried: str) -> Fault:
    """The slot's worker was replaced on purpose, and its episode could not be brought back."""
    advice = (
        "it is not deterministic: see `ninelives chaos`; without max_steps, max_age_s and max_rss_bytes nobody is moved"
    )
    summary = "its episode did not survive the replacement of its worker"
    return _fault("moved", summary, scene, tried=tried, advice=advice)


def _said(words: Mapping[str, Any]) -> dict[str, str]:
    return {"traceback": words["traceback"], "refusal": words.get("refusal", "")}


def _in_phase(scene: Scene, words: Mapping[str, Any]) -> Scene:
    """The phase the worker itself named: its progress words have moved on since."""
    phase = Phase[words["phase"].upper()]
    return dataclasses.replace(scene, phase=phase, last_action=scene.last_action if phase is Phase.STEP else None)


def _fault(kind: str, summary: str, scene: Scene, ending: Ending | None = None, **more: str) -> Fault:
    return Fault(
        kind=kind,
        summary=summary,
        slots=scene.slots,
        worker=scene.worker,
        generation=scene.generation,
        phase=scene.phase.name.lower(),
        culprit=scene.culprit,
        pid=scene.pid,
        signal=ending.signal if ending else None,
        exit_code=ending.exit_code if ending else None,
        seed=scene.seed,
        last_action=scene.last_action,
        stderr_tail=log_tail(scene.log, scene.log_from),
        log_path=str(scene.log),
        **more,
    )
