"""Why a worker ended or an environment failed: control words, error report, end of the log and exit status as a fault.

Reads only: the dead worker's memory and messages are still there.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ninelives import host
from ninelives.errors import Fault
from ninelives.pool.resources import Resources
from ninelives.pool.workers.progress_words import Progress, read_progress
from ninelives.pool.workers.worker import WorkerProcess
from ninelives.spec.phase import Phase, Stage
from ninelives.supervise.exits import Ending
from ninelives.supervise.machine import NS
from ninelives.transport.control import FROM_MESSAGE
from ninelives.transport.mailbox import TO_PARENT, Mailbox

Describe = Callable[[int], tuple[int | None, Any]]
"""Seed of the present episode and last action of a slot."""

BEFORE_BYTES, STACK_BYTES, SEARCH_BYTES = 1500, 6000, 1 << 18
"""Of a log: what came before a stack, the stack itself (innermost frame first), and how far back one is searched."""

_STACKS = (b"Fatal Python error", b"Current thread 0x")
"""How a stack begins in a log: after a crash, or on request."""


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


class Postmortem:
    """Looks at workers that ended, or whose environments failed. Changes nothing."""

    def __init__(self, resources: Resources, describe: Describe, quarantined: Set[int]) -> None:
        self._resources, self._memory = resources, resources.memory
        self._describe, self._quarantined = describe, quarantined

    def fault_of(self, process: WorkerProcess, ending: Ending, rss: int) -> Fault:
        """Why a process ended that was not asked to."""
        scene, machine = self.scene(process), process.machine
        if machine.hung is not None:
            late_in = Phase.STEP if machine.hung.phase is Phase.IDLE else machine.hung.phase
            cause = hung(scene, machine.late_ns / NS, machine.deadlines.limits_ns[late_in] / NS)
        elif machine.condemned:
            cause = wrote_wildly(scene, machine.condemned)
        else:
            cause = crashed(scene, ending, rss, host.memory_limit_bytes())
        report = self.error_report(process)
        if process.booted:
            return raised("raised", scene, report) if report else cause
        return never_started(scene, report, cause, process.attempts + 1)

    def error_report(self, process: WorkerProcess) -> Any:
        """What the worker reported before it failed at its start, or None."""
        progress = self._progress(process)
        if progress.stage is not Stage.FAILED or progress.complaint:
            return None
        try:
            return self.message(process)
        except Exception:  # what a wild write has left there fails in any way
            return None

    def _progress(self, process: WorkerProcess) -> Progress:
        return read_progress(self._memory.control.from_worker[process.line], self._memory.rows)

    def message(self, process: WorkerProcess) -> Any:
        """The newest message of a worker: its hello, or its error report."""
        nbytes = int(self._memory.control.from_worker[process.line, FROM_MESSAGE])
        return self._memory.mail.get(self._memory.mail.worker_window(process.line), TO_PARENT, nbytes)

    def scene(self, process: WorkerProcess) -> Scene:
        """What the worker was doing, in which slot."""
        reading = process.machine.hung or self._progress(process)
        phase, culprit = reading.phase, reading.slot
        if culprit not in process.slots:
            culprit = None  # a spare that had no slots of the pool yet, or a wild write
        seed, action = self._describe(culprit) if culprit is not None else (None, None)
        return Scene(
            worker=process.index,
            generation=process.machine.generation,
            pid=process.pid,
            slots=tuple(slot for slot in process.slots if slot not in self._quarantined),
            culprit=culprit,
            phase=phase,
            seed=seed,
            last_action=action if phase is Phase.STEP else None,
            log=self._resources.log_of(process.line),
            log_from=process.log_from,
            log_stays=self._resources.options.run_dir is not None,
        )

    def slot_scene(self, process: WorkerProcess, slot: int) -> Scene:
        """The scene of a fault that the worker survived."""
        seed, action = self._describe(slot)
        return dataclasses.replace(self.scene(process), slots=(slot,), culprit=slot, seed=seed, last_action=action)


def log_tail(path: Path, start: int = 0) -> str:
    """The end of a log, from ``start`` at the earliest; if it holds a stack, the beginning of that."""
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
    """The process ended without being asked to."""
    summary = ending.describe(rss_bytes, limit_bytes) + f" during {scene.phase.name.lower()}"
    return _fault("crashed", summary, scene, ending=ending, advice=ending.advice)


def hung(scene: Scene, late_s: float, limit_s: float) -> Fault:
    """The phase took too long; the stack is at the end of the log."""
    name = scene.phase.name.lower()
    doing = "did not answer a request" if scene.phase is Phase.IDLE else f"hung in {name}"
    key = {Phase.IDLE: "step", Phase.RESTORE: "reset"}.get(scene.phase, name)
    advice = f"the stack shows where; if it is only slow, raise {key}_timeout_s"
    return _fault("hung", f"{doing} for {limit_s + late_s:.1f} s (limit {limit_s:g} s)", scene, advice=advice)


def wrote_wildly(scene: Scene, words: str) -> Fault:
    """The worker was killed because its memory holds what it would never write."""
    advice = "the environment's native code writes outside its memory: run it under a memory checker"
    return _fault("crashed", f"was killed for {words}, during {scene.phase.name.lower()}", scene, advice=advice)


def never_started(scene: Scene, report: Mapping[str, Any] | None, cause: Fault, attempts: int) -> Fault:
    """No environment of this worker ever gave an observation."""
    tried = f"{attempts} start{'s' if attempts > 1 else ''}"
    if report is None:
        ending = Ending(cause.signal, cause.exit_code)
        return _fault("start", f"never started: {cause.summary}", scene, ending, advice=cause.advice, tried=tried)
    if report.get("kind") == "spaces":
        return other_spaces(scene, report["refusal"], tried)
    summary = f"never started: {report['summary']} during {report['phase']}"
    advice = "this is most likely a mistake in the environment's settings; the traceback names the line"
    fault = _fault("start", summary, _in_phase(scene, report), None, advice=advice, tried=tried, **_said(report))
    # The worker printed the same traceback: leave it out here. A temporary log is gone by now.
    rest = fault.stderr_tail.replace(report["traceback"].strip(), "").strip()
    return dataclasses.replace(fault, stderr_tail=rest, log_path=fault.log_path if scene.log_stays else None)


def other_spaces(scene: Scene, text: str, tried: str = "1 start") -> Fault:
    """An environment cannot share a batch with the others."""
    advice = (
        "build all environments of a pool with equal spaces: same shapes, dtypes and bounds; where only bounds of "
        "observations differ, observation_mode='different' allows it"
    )
    scene = dataclasses.replace(scene, phase=Phase.CONSTRUCT)
    fault = _fault("spaces", text, scene, advice=advice, tried=tried, refusal=text)
    return dataclasses.replace(fault, stderr_tail="", log_path=fault.log_path if scene.log_stays else None)


def raised(kind: str, scene: Scene, report: Mapping[str, Any]) -> Fault:
    """The environment raised, or returned what its space does not allow."""
    verb = "raised" if kind == "raised" else "returned bad data:"
    advice = (
        "the traceback is the environment's own"
        if kind == "raised"
        else "correct the environment's spaces or its data; check='shape' accepts NaN"
    )
    summary = f"{verb} {report['summary']} in {report['phase']}"
    return _fault(kind, summary, _in_phase(scene, report), None, advice=advice, **_said(report))


def slot_report(mail: Mailbox, slot: int, nbytes: int) -> Mapping[str, Any]:
    """The error report of a slot whose worker lives; what a wild write has left in its place fails in any way."""
    try:
        report: Mapping[str, Any] = mail.get_plain(slot, TO_PARENT, nbytes)
    except Exception as error:
        summary = f"an error report of {nbytes} bytes that cannot be read ({type(error).__name__})"
        return {"summary": summary, "phase": "step", "traceback": ""}
    return report


def lost_with_keeper(scene: Scene) -> Fault:
    """The keeper died and all workers with it: no environment is to blame."""
    advice = "the keeper was killed from outside, or the system ran out of memory; see `dmesg`"
    blameless = dataclasses.replace(scene, culprit=None)
    return _fault("crashed", "ended together with the keeper of all workers", blameless, advice=advice)


def not_moved(scene: Scene, tried: str) -> Fault:
    """The slot's worker was replaced on purpose, and its episode could not be brought back."""
    advice = (
        "it is not deterministic: see `ninelives chaos`; without max_steps, max_age_s and max_rss_bytes no worker is "
        "replaced on purpose"
    )
    summary = "its episode did not survive the replacement of its worker"
    return _fault("moved", summary, scene, tried=tried, advice=advice)


def _said(report: Mapping[str, Any]) -> dict[str, str]:
    return {"traceback": report["traceback"], "refusal": report.get("refusal", "")}


def _in_phase(scene: Scene, report: Mapping[str, Any]) -> Scene:
    """The phase that the worker itself reported: its progress words have moved on since."""
    phase = Phase[report["phase"].upper()]
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
