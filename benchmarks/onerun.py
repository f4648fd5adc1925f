"""The child process that trains once: one system, one game, one seed; writes what happened to a file.

``python onerun.py REQUEST OUT``: the request is JSON, the answer a ``Course`` as JSON. Systems print what they like.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import ours
import peers
from tasks import Settings
from tracks import Course

CORES = 2
TIMEOUT_S = 4 * 3600.0

SYSTEMS: dict[str, Callable[..., Course]] = {
    "ninelives": ours.ninelives,
    "ninelives_blind": ours.without_memory,
    "sb3": peers.sb3,
    "cleanrl": peers.cleanrl,
}


class RunFailedError(Exception):
    """A run ended without an answer; the message is the last line it said."""


@dataclass(frozen=True)
class Request:
    """Everything a run needs to know."""

    system: str
    game: str
    timesteps: int
    seed: int
    settings: Settings = field(default_factory=Settings)
    options: dict[str, Any] = field(default_factory=dict)

    def run(self) -> Course:
        """Train, here and now."""
        return SYSTEMS[self.system](self.game, self.timesteps, self.settings, self.seed, **self.options)


def in_a_child(request: Request) -> Course:
    """Train in a process of its own, confined to two cores, so that no run inherits anything from another."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "course.json"
        command = [sys.executable, __file__, json.dumps(asdict(request)), str(out)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, cwd=folder)
        if done.returncode != 0 or not out.exists():
            lines = done.stderr.strip().splitlines()
            raise RunFailedError(lines[-1] if lines else f"ended with code {done.returncode}")
        return Course.of_json(out.read_text())


def main() -> None:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    fields = json.loads(sys.argv[1])
    request = Request(**{**fields, "settings": Settings(**fields["settings"])})
    Path(sys.argv[2]).write_text(request.run().as_json())


if __name__ == "__main__":
    main()
