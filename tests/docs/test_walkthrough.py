"""The walks of ``docs/walkthrough.md`` are those that the code takes: traced in all processes, in the listed order."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "walkthrough.md"
STEP = re.compile(r"^\d+\. `([\w/]+\.py):([\w.]+)`", re.MULTILINE)
MOST_FILES = {"One action": 12, "One SIGKILL": 30}

PROGRAM = """
import json, os, signal, sys, time
import numpy as np
import ninelives

walks, actions = {}, np.zeros(2, np.int64)
with ninelives.Pool("CartPole-v1", 2, workers=2, preload=("walk_trace",)) as pool:
    pool.reset(seed=0)
    for _ in range(5):
        pool.step(actions)
    import walk_trace
    for walk in ("One action", "One SIGKILL"):
        if walk == "One SIGKILL":
            os.kill(pool.worker_pids[0], signal.SIGKILL)
        began = time.monotonic_ns()
        pool.step(actions)
        walks[walk] = began, time.monotonic_ns()
    sys.setprofile(None)
print(json.dumps(walks))
"""


def walks() -> dict[str, list[list[str]]]:
    """The lists of the page: by walk, one list for each process."""
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    return {
        section.splitlines()[0]: [
            [":".join(step) for step in STEP.findall(part)] for part in section.split("\n\n") if STEP.search(part)
        ]
        for section in sections
    }


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """What each process called during each walk."""
    place = tmp_path_factory.mktemp("walk")
    (place / "trace").mkdir()
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environ = {**os.environ, "WALK_DIR": str(place / "trace"), "PYTHONPATH": path, "NINELIVES_NATIVE": "0"}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environ, cwd=place, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    times = json.loads(done.stdout)
    called = {}
    for file in (place / "trace").iterdir():
        lines = [line.split() for line in file.read_text().splitlines()]
        for walk, (began, ended) in times.items():
            called.setdefault(walk, []).append([name for at, name in lines if began <= int(at) <= ended])
    return called


def missing(listed: list[str], called: list[str]) -> str | None:
    """The first listed function that is not called after the one listed before it."""
    rest = iter(called)
    return next((name for name in listed if name not in rest), None)


@pytest.mark.parametrize("walk", MOST_FILES)
def test_the_code_takes_the_walk_that_the_page_lists(traces, walk):
    for listed in walks()[walk]:
        assert listed
        problems = [missing(listed, called) for called in traces[walk]]
        assert None in problems, f"no process calls these in this order; first missing, by process: {problems}"


@pytest.mark.parametrize("walk", MOST_FILES)
def test_a_walk_crosses_few_files(walk):
    files = {name.split(":")[0] for listed in walks()[walk] for name in listed}
    assert len(files) <= MOST_FILES[walk], sorted(files)


def test_a_function_out_of_order_would_be_found():
    assert missing(["a:f", "a:g"], ["a:g", "a:f"]) == "a:g"
    assert missing(["a:f", "a:g"], ["b:h", "a:f", "b:h", "a:g"]) is None
