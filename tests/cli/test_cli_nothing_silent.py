"""Nothing is silent: Ctrl-C is answered at once, faults and leaks are named, and each error is printed once."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from ninelives.cli.reporting import leak_watch

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


BREAKS = '''
from game import Calm

class Breaks(Calm):
    """Raises in step 7 of each of its first episodes."""

    broken = 0

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return super().reset(seed=seed)

    def step(self, action):
        self.steps += 1
        if self.steps == 7 and Breaks.broken < {times}:
            Breaks.broken += 1
            int("no number")
        obs, reward, _, _, info = super().step(action)
        return obs, reward, self.steps == 20, False, info
'''
"""The exception arises below the environment's own line; a replay in a new process raises it again."""


def test_a_run_with_faults_names_their_line_and_ends_with_the_command_that_explains_them(ninelives, here):
    (here / "mygame.py").write_text(BREAKS.format(times=1))
    flags = ("--timesteps", "128", "--run-dir", "one")
    done = ninelives("train", "mygame:Breaks", *flags, *SMALL)
    assert done.code == 0, done.err
    line = 1 + next(n for n, text in enumerate(BREAKS.splitlines()) if "int(" in text)
    assert f"in step, at {here}/mygame.py:{line} in step" in done.out
    assert re.fullmatch(r"\d+ faults?.*; what happened: ninelives doctor one", done.out.splitlines()[-1])


def test_a_run_that_its_faults_end_names_the_command_below_the_error(ninelives, here):
    (here / "mygame.py").write_text(BREAKS.format(times=1000))
    flags = ("--pool.max-restarts-per-slot", "1", "--timesteps", "2000", "--run-dir", "one")
    done = ninelives("train", "mygame:Breaks", *flags, *SMALL)
    assert done.code == 1
    assert "every slot is quarantined" in done.err
    assert done.err.splitlines()[-1].endswith("slots 0-1 quarantined; what happened: ninelives doctor one")


def test_a_run_without_faults_mentions_none(ninelives):
    done = ninelives("train", "CartPole-v1", "--timesteps", "64", "--run-dir", "one", *SMALL)
    assert "doctor" not in done.out


def test_an_environment_that_does_not_start_is_reported_once_and_leaves_no_row(ninelives, here):
    done = ninelives("train", "game:NeedsRom", "--timesteps", "64", "--run-dir", "runs/one", "--n-envs", "2")
    assert done.code == 2
    assert (done.out + done.err).count("it needs your own ROM") == 1
    done = ninelives("train", "game:Unbuildable", "--timesteps", "64", "--run-dir", "runs/two", "--n-envs", "2")
    assert "KeyError" not in done.out
    assert done.err.count("never started") == 1
    assert ninelives("runs").out == "no runs in runs; `ninelives train ENV` creates one\n"


def test_workers_that_start_are_counted_by_how_many_there_will_be(ninelives):
    done = ninelives("train", "CartPole-v1", "--timesteps", "64", "--ppo.n-steps", "8", "--n-envs", "8")
    chosen = re.search(r"8 slots, (\d+) worker", done.out)[1]
    assert set(re.findall(r"worker \d+/(\d+)", done.out)) == {chosen}


HANGS = '''
import os, time
from game import Calm

class Hangs(Calm):
    """Hangs once, in the first step that finds no file ``hung``."""

    def step(self, action):
        if not os.path.exists(os.environ["GAME_DIR"] + "/hung"):
            open(os.environ["GAME_DIR"] + "/hung", "w").close()
            time.sleep(1000)
        return super().step(action)
'''


def test_the_doctor_of_a_training_run_speaks_in_flags_and_names_the_environments_line(process, here):
    (here / "mygame.py").write_text(HANGS)
    flags = ("--pool.step-timeout-s", "0.5", "--timesteps", "64", "--run-dir", "one")
    done = process("train", "mygame:Hangs", *flags, *SMALL, GAME_DIR=str(here))
    assert done.code == 0, done.err
    explained = process("doctor", "one").out
    line = 1 + next(n for n, text in enumerate(HANGS.splitlines()) if "sleep" in text)
    assert f"at {here}/mygame.py:{line} in step" in explained
    assert "if it is only slow, raise --pool.step-timeout-s above 0.5 s" in explained


LEAKS = '''
from game import Calm

class Leaks(Calm):
    """Never frees a megabyte in each step."""

    kept = []

    def step(self, action):
        Leaks.kept.append(bytearray(b"x") * 1_000_000)
        return super().step(action)
'''


def test_a_leak_is_named_while_training_with_a_flag_that_cures_it(ninelives, here, monkeypatch):
    monkeypatch.setattr(leak_watch, "EVERY_S", 0.01)
    (here / "mygame.py").write_text(LEAKS)
    small = ("--n-envs", "2", "--pool.workers", "1", "--ppo.n-steps", "8", "--overlap", "off", "--timesteps", "256")
    done = ninelives("train", "mygame:Leaks", *small, "--run-dir", "one")
    assert done.code == 0, done.err
    flag = re.search(r"worker 0 grows steadily, from .*--pool.max-rss-bytes (\d+) replaces", done.out)
    assert flag
    assert done.out.index(flag[0]) < done.out.index("done: 256 steps") < done.out.rindex(flag[0])
    cured = ninelives("train", "mygame:Leaks", *small, "--run-dir", "two", "--pool.max-rss-bytes", flag[1])
    assert cured.code == 0, cured.err
    assert "grows steadily" not in cured.out
