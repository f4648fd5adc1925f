"""The coordinator's side: opens one child per system and interleaves their windows, with the limit around every round.

::

    round 1:  limit | A | B | C | limit       only one of them runs at a time, the others stand idle
    round 2:  limit | B | C | A | limit       the order turns, so that no system always follows the same one

A ratio compares a window with the two limits around its own round: a host's speed drifts, ratios drift less.
"""

from __future__ import annotations

import json
import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import procfs
from cells import Cell, Entry

HERE = Path(__file__).parent
OPEN_TIMEOUT_S = 120.0
CLOSE_TIMEOUT_S = 15.0
SLACK_S = 30.0
WARM_S = 0.5
LIMIT_LOOPS = 2
QUIET_THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class SystemFailedError(Exception):
    """A system could not be opened or stopped answering; the message is its own."""


class Child:
    """A system in its own process."""

    def __init__(self, system: str, workload: str, num_envs: int, settings: dict[str, Any]) -> None:
        spec = {"system": system, "workload": workload, "num_envs": num_envs, "settings": settings}
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115, closed by end()
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "driver.py"), json.dumps(spec)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, env={**os.environ, **QUIET_THREADS},
        )  # fmt: skip

    @property
    def pid(self) -> int:
        """Root of the system's process tree."""
        return self._process.pid

    def ask(self, do: str, **arguments: Any) -> None:
        """Send a request; the answer is taken by ``answer``."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise SystemFailedError(self._last_words()) from None

    def answer(self, timeout_s: float) -> dict[str, Any]:
        """Wait for the answer to the last request (or, at first, for the system to be open)."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], timeout_s)
        if not ready:
            raise SystemFailedError(f"no answer within {timeout_s:.0f} s")
        line = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": self._last_words()}
        if "error" in answer:
            raise SystemFailedError(answer["error"])
        return answer

    def request(self, do: str, timeout_s: float = SLACK_S, **arguments: Any) -> dict[str, Any]:
        """Ask and wait."""
        self.ask(do, **arguments)
        return self.answer(timeout_s)

    def end(self) -> None:
        """Close it politely; whatever of its tree is left after that is killed."""
        family = procfs.tree(self.pid)
        try:
            self.request("close", CLOSE_TIMEOUT_S)
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(CLOSE_TIMEOUT_S)
        except (SystemFailedError, subprocess.TimeoutExpired):
            _kill(family)
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._stderr):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                pass

    def _last_words(self) -> str:
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"ended with code {self._process.poll()}"


@dataclass
class Window:
    """One system (or the limit) for a moment: steps per second, and what else the machine was doing."""

    rate: float
    others: float
    steal: float


@dataclass
class Track:
    """Everything measured about one entry of a cell; ``error`` instead if it failed."""

    entry: Entry
    windows: list[Window] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    start_s: float = 0.0
    pss_mb: float = 0.0
    processes: int = 0
    notes: str = ""
    error: str = ""

    @property
    def rates(self) -> list[float]:
        """Steps per second, window by window."""
        return [window.rate for window in self.windows]


@dataclass
class Measured:
    """A cell with its tracks and the limits around its rounds; ``error`` if the bare loops themselves failed."""

    cell: Cell
    tracks: list[Track]
    limits: list[Window] = field(default_factory=list)
    error: str = ""

    def track(self, key: str) -> Track | None:
        """The track of an entry by its key, if it was measured without failing."""
        return next((t for t in self.tracks if t.entry.key == key and t.ratios and not t.error), None)


def measure(cell: Cell, rounds: int, window_s: float, say: Callable[[str], None]) -> Measured:
    """Open every system of a cell, run the rounds, close everything."""
    measured = Measured(cell, [Track(entry) for entry in cell.entries])
    loops: list[Child] = []
    children: dict[str, Child] = {}
    try:
        loops.extend(fresh("bare", cell.limit, 1, {}, WARM_S)[0] for _ in range(LIMIT_LOOPS))
        for track in measured.tracks:
            _open(track, cell, children)
            say(f"  {track.entry.label}: {track.error or f'open in {track.start_s:.2f} s'}")
        measured.limits.append(together(loops, window_s))
        for turn in range(rounds):
            _round(measured, children, turn, window_s)
            measured.limits.append(together(loops, window_s))
            _compare(measured)
    except SystemFailedError as failure:
        measured.error = str(failure)
    finally:
        for child in (*loops, *children.values()):
            child.end()
    return measured


def fresh(system: str, workload: str, num_envs: int, settings: dict[str, Any], warm_s: float) -> tuple[Child, float]:
    """A system that is open and warm, for measurements of one system alone; and how long it took to open."""
    child = Child(system, workload, num_envs, settings)
    try:
        start_s = float(child.answer(OPEN_TIMEOUT_S)["start_s"])
        child.request("run", seconds=warm_s, timeout_s=warm_s + SLACK_S)
    except SystemFailedError:
        child.end()
        raise
    return child, start_s


def _open(track: Track, cell: Cell, children: dict[str, Child]) -> None:
    entry = track.entry
    try:
        child, track.start_s = fresh(entry.system, cell.workload, cell.num_envs, entry.settings, WARM_S)
    except SystemFailedError as failure:
        track.error = str(failure)
        return
    children[entry.key] = child
    memory = child.request("memory")
    track.pss_mb, track.processes = memory["pss_mb"], memory["processes"]
    track.notes = child.request("notes")["notes"]


def _round(measured: Measured, children: dict[str, Child], turn: int, window_s: float) -> None:
    first = turn % len(measured.tracks)
    for track in measured.tracks[first:] + measured.tracks[:first]:
        if track.error:
            continue
        try:
            track.windows.append(together([children[track.entry.key]], window_s))
        except SystemFailedError as failure:
            track.error = str(failure)


def together(children: Sequence[Child], window_s: float) -> Window:
    """One window of these children at the same time; their rates add up."""
    own = [os.getpid(), *(pid for child in children for pid in procfs.tree(child.pid))]  # the idle ones are others
    cpu, (busy, steal), began = procfs.cpu_s(own), procfs.machine_s(), time.perf_counter()
    for child in children:
        child.ask("run", seconds=window_s)
    answers = [child.answer(window_s + SLACK_S) for child in children]
    wall = time.perf_counter() - began
    cpu_now, (busy_now, steal_now) = procfs.cpu_s(own), procfs.machine_s()
    others = max(0.0, (busy_now - busy) - (cpu_now - cpu)) / wall
    return Window(sum(a["steps"] / a["seconds"] for a in answers), others, (steal_now - steal) / wall)


def _compare(measured: Measured) -> None:
    """Ratios of the round that has just ended, to the mean of the limits before and after it."""
    limit = statistics.mean(window.rate for window in measured.limits[-2:])
    for track in measured.tracks:
        if not track.error and track.entry.has_limit:
            track.ratios.append(track.rates[-1] / limit)


def _kill(pids: Sequence[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
