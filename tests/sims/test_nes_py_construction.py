"""Many games of nes_py built at once: none hangs; and one that never ends is found out, with its line."""

import os
import subprocess
import sys
from pathlib import Path

import nes_games
import numpy as np
import pytest
from nes_games import ACTIONS, play

import ninelives
from ninelives.events import FaultSeen, StackDumped
from ninelives.testing import RecordingSink

ENVS, RIGHT = 8, ACTIONS.index("right")
FULL = os.environ.get("NINELIVES_FULL") == "1"
ROUNDS, METHODS = (42, ("fork", "forkserver", "spawn")) if FULL else (1, ("fork", "forkserver"))
LIMIT_S = 2.0

pytestmark = pytest.mark.usefixtures("runner_rom")


@pytest.fixture(scope="module")
def alone(runner_rom):
    """What one of them shows after a reset and a step, in this process."""
    env = play(runner_rom)
    env.reset(seed=0)
    screen = env.step(RIGHT)[0]
    env.close()
    return screen


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("time", range(ROUNDS))
def test_eight_at_once_are_built(runner_rom, alone, method, time):
    game = ninelives.EnvSpec("nes_games:play", {"rom": runner_rom})
    with ninelives.Pool(game, ENVS, workers=ENVS, start_method=method, start_concurrency=ENVS) as pool:
        pool.reset(seed=0)
        batch = pool.step(np.full(ENVS, RIGHT))
        assert all(np.array_equal(row, alone) for row in batch.obs)
        assert not [event for event in pool.events if isinstance(event, FaultSeen)]


def test_a_constructor_that_never_ends_meets_its_deadline_and_its_stack_shows_the_line(runner_rom, tmp_path):
    """Without our repair: RAM is a copy, and the loop that waits for it to change has no bound."""
    stuck = ninelives.EnvSpec("nes_games:hasty", {"rom": runner_rom})
    run, sink = tmp_path / "run", RecordingSink()
    settings = {"run_dir": run, "construct_timeout_s": LIMIT_S, "start_attempts": 1, "sinks": [sink]}
    with pytest.raises(ninelives.WorkerStartError, match=r"hung in construct for .* \(limit 2 s\)"):
        ninelives.Pool(stuck, 2, workers=2, **settings)
    assert any("_skip_start_screen" in event.stack for event in sink.of(StackDumped))
    done = subprocess.run(
        [sys.executable, "-m", "ninelives", "doctor", str(run)],
        capture_output=True, text=True, timeout=60, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    assert done.returncode == 1
    assert "the pool never started" in done.stdout
    assert [line for line in looping_lines() if f"nes_games.py:{line} in _skip_start_screen" in done.stdout]


def looping_lines():
    """Where the endless loop stands in the file: its condition and its body."""
    source = Path(nes_games.__file__).read_text().splitlines()
    first = next(number for number, line in enumerate(source, 1) if "while self.time == 0" in line)
    return range(first, first + 3)
