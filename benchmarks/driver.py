"""The child process that holds one system and runs a window whenever the coordinator says so.

Reads one JSON request a line from stdin, answers one JSON line on its first stdout, and blocks in between: a system
whose turn it is not stands idle. Whatever a system prints goes to stderr. Ends when stdin ends.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import procfs
from systems import OPENERS, System

LEAD_S = 0.03
"""Before a window: what lay ready since the window before, as rows of first-ready batches do, is not of this one."""

SETTLE_S = 0.3
"""Before an idle measurement: longer than any system polls before it sleeps."""


class Driver:
    """One system, its clock and its requests."""

    def __init__(self, system: System) -> None:
        self._system, self._turn = system, 0

    def run(self, seconds: float) -> dict[str, float]:
        """Step for so long, after a run-up; the answer counts true environment steps only."""
        self._step_for(LEAD_S)
        self._system.resets()
        rows, took = self._step_for(seconds)
        return {"steps": rows - self._system.resets(), "seconds": took}

    def _step_for(self, seconds: float) -> tuple[int, float]:
        """How many rows came, and how long it took."""
        step, clock, turn, rows = self._system.step, time.perf_counter, self._turn, 0
        began = clock()
        end, now = began + seconds, began
        while now < end:
            rows += step(turn)
            turn += 1
            now = clock()
        self._turn = turn
        return rows, now - began

    def turn(self) -> dict[str, int]:
        """How many batches were taken so far."""
        return {"turn": self._turn}

    def count(self, batches: int) -> dict[str, float]:
        """Take so many batches: the same work for every system that was given the same seeds."""
        step, turns = self._system.step, range(self._turn, self._turn + batches)
        began = time.perf_counter()
        for turn in turns:
            step(turn)
        seconds, self._turn = time.perf_counter() - began, turns.stop
        self._system.resets()
        return {"seconds": seconds}

    def idle(self, seconds: float) -> dict[str, float]:
        """Cores used by the whole process tree while nobody asks for a step."""
        time.sleep(SETTLE_S)
        pids = procfs.tree(os.getpid())
        cpu, began = procfs.cpu_s(pids), time.perf_counter()
        time.sleep(seconds)
        return {"cores": (procfs.cpu_s(pids) - cpu) / (time.perf_counter() - began)}

    def memory(self) -> dict[str, float]:
        """Memory of the whole process tree."""
        pids = procfs.tree(os.getpid())
        return {"pss_mb": procfs.pss_mb(pids), "processes": len(pids)}

    def notes(self) -> dict[str, str]:
        """How the system was set up."""
        return {"notes": self._system.notes()}

    def workers(self) -> dict[str, int]:
        """How many processes step the environments."""
        return {"workers": self._system.workers()}

    def close(self) -> dict[str, float]:
        """End the system."""
        began = time.perf_counter()
        self._system.close()
        return {"seconds": time.perf_counter() - began}


def opened(system: str, workload: str, num_envs: int, settings: dict[str, Any]) -> tuple[Driver, float]:
    """The driver, and how long its system took from its import to its first observations."""
    began = time.perf_counter()
    driver = Driver(OPENERS[system](workload, num_envs, **settings))
    return driver, time.perf_counter() - began


def main() -> None:
    with os.fdopen(os.dup(1), "w", buffering=1) as answers:
        os.dup2(2, 1)
        try:
            driver, start_s = opened(**json.loads(sys.argv[1]))
            answers.write(json.dumps({"start_s": start_s}) + "\n")
            for line in sys.stdin:
                request = json.loads(line)
                answers.write(json.dumps(getattr(driver, request.pop("do"))(**request)) + "\n")
        except Exception as error:
            answers.write(json.dumps({"error": f"{type(error).__name__}: {error}"}) + "\n")
            raise


if __name__ == "__main__":
    main()
