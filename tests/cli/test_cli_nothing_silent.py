"""Nothing is silent: Ctrl-C is answered at once, faults and leaks are named, and each error is printed once."""

import os
import signal
import subprocess
import sys
import time

import pytest

SMALL = ("--ppo.n-steps", "32", "--n-envs", "2", "--pool.workers", "1", "--overlap", "off")

GATED = '''
import os, time
from game import Calm

class Gated(Calm):
    """Its steps wait while a file called ``hold`` exists."""

    def step(self, action):
        while os.path.exists(os.environ["GAME_DIR"] + "/hold"):
            open(os.environ["GAME_DIR"] + "/waiting", "w").close()
            time.sleep(0.01)
        return super().step(action)
'''


@pytest.fixture
def gated(here):
    """Start a command on an environment and return it in the middle of a step that waits."""
    (here / "mygame.py").write_text(GATED)
    started = []

    def start(*args):
        command = [sys.executable, "-m", "ninelives", *args]
        environ = {**os.environ, "GAME_DIR": str(here)}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen(command, cwd=here, env=environ, **pipes)
        started.append(process)
        while not process.stdout.readline().startswith("run: "):
            assert process.poll() is None, process.communicate()
        (here / "hold").touch()
        _wait_until((here / "waiting").exists, process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def _wait_until(true, process):
    while not true():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


@pytest.mark.parametrize(
    "command", [("train", "mygame:Gated", "--timesteps", "1_000_000_000", *SMALL), ("demo", "--env", "mygame:Gated")]
)
def test_ctrl_c_is_answered_while_the_update_lasts_and_the_second_one_stops_at_once(gated, command):
    process = gated(*command)
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline() == "ninelives: finishing this update; again to stop now\n"
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    assert process.stderr.read() == "ninelives: interrupted\n"
