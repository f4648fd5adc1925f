"""What the first worker measures about one environment, and how a worker reports its progress."""

import os
import subprocess
import sys
import time

import gymnasium
import pytest
from gymnasium import spaces

from ninelives.spec.phase import Phase, Stage
from ninelives.transport.control import FROM_GENERATION, FROM_MESSAGE, FROM_SLOT, FROM_STAGE, Control, control_layout
from ninelives.worker.probe import BROKE, measure
from ninelives.worker.progress import ProgressWords


class Short(gymnasium.Env):
    """Episodes of three steps; complains when it is stepped beyond its end."""

    action_space = spaces.Discrete(2)

    def __init__(self):
        self.left, self.steps, self.resets = None, 0, 0

    def reset(self, *, seed=None, options=None):
        self.left, self.resets = 3, self.resets + 1
        return 0, {}

    def step(self, action):
        assert self.left, "stepped beyond its end"
        self.left, self.steps = self.left - 1, self.steps + 1
        return 0, 0.0, self.left == 0, False, {}


def test_a_quick_environment_is_stepped_over_the_ends_of_its_episodes():
    env = Short()
    probe = measure(env)
    assert env.steps > 3
    assert env.resets > 1
    assert 0 < probe.step_s < 1
    assert 0 < probe.cpu_share <= 1
    assert probe.rss_bytes > 0


def test_an_environment_that_fails_is_not_judged_by_its_measurement():
    class Broken(Short):
        def step(self, action):
            raise ValueError("broke")

    probe = measure(Broken())
    assert (probe.step_s, probe.unknown) == (None, BROKE)


class Computing(Short):
    """Uses one millisecond of a core in each step."""

    def step(self, action):
        end = time.thread_time() + 0.001
        while time.thread_time() < end:
            pass
        return super().step(action)


@pytest.fixture
def crowded_core():
    """This process shares one core with three busy ones."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
        os.sched_setaffinity(0, before)


@pytest.mark.usefixtures("crowded_core")
def test_processes_that_take_the_core_do_not_make_a_step_look_dearer():
    probe = measure(Computing())
    assert 0.0009 < probe.step_s < 0.002
    assert probe.cpu_share > 0.7


def test_the_deadlines_of_reset_and_step_apply_while_it_is_measured():
    phases = []
    measure(Short(), phases.append)
    assert phases[:2] == [Phase.RESET, Phase.STEP]
    assert phases.count(Phase.RESET) > 1


@pytest.fixture
def control():
    return Control(bytearray(control_layout(2, 2).nbytes), 2, 2)


def test_progress_says_which_phase_which_slot_and_since_when(control):
    progress = ProgressWords(control, 1, generation=4)
    before = time.monotonic_ns()
    progress.enter(Phase.RESET, slot=0)
    assert progress.phase is Phase.RESET
    assert control.from_worker[1, FROM_SLOT] == 1, "zero means no slot"
    assert before <= control.since_ns[1, 0] <= time.monotonic_ns()
    assert control.from_worker[1, FROM_GENERATION] == 4
    progress.enter(Phase.IDLE)
    assert (progress.phase, control.from_worker[1, FROM_SLOT]) == (Phase.IDLE, 0)
    assert not control.from_worker[0].any(), "another worker's line is not ours to write"


def test_an_older_message_stays_readable_until_the_next_one(control):
    progress = ProgressWords(control, 0, generation=1)
    progress.reach(Stage.HELLO, 120)
    progress.reach(Stage.READY)
    assert control.from_worker[0, [FROM_STAGE, FROM_MESSAGE]].tolist() == [Stage.READY, 120]
