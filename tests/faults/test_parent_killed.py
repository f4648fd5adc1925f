"""The user's program is killed by SIGKILL at any moment: nothing of it is left after two seconds."""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import subprocess
import sys
import time

import pytest

from rookery.testing import leftovers

GONE_S = 2.0
AT_ONCE = 5
MARK = "ROOKERY_TEST_MARK"

PROGRAM = """
import sys, rookery
from rookery.testing import Fragile, When

class Messy:
    '''Slot 0 has children of three kinds, slot 1 hangs in native code at its third step.'''
    def __call__(self):
        for fault in ("have_child", "have_daemon", "have_forked_daemon"):
            Fragile(fault, When("construct", slots=(0,)))()
        return Fragile("hang_native", When("step", at=3, slots=(1,)))()

pool = rookery.Pool(Messy(), 3, workers=3, start_method=sys.argv[1], batch_size=1)
pool.reset(seed=1)
print("up", flush=True)
pool.send([0, 0, 0])
while True:
    batch = pool.recv()
    pool.send([0] * len(batch), batch.slots)
"""


class Program:
    """One run of the program, with a temporary directory and a mark of its own."""

    def __init__(self, method, tmpdir):
        self.mark, self.tmpdir = secrets.token_hex(8), tmpdir
        environ = {**os.environ, MARK: self.mark, "TMPDIR": str(tmpdir)}
        self._popen = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, method], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def await_up(self):
        said = self._popen.stdout.readline()
        assert said == b"up\n", f"the program did not come up: {self._popen.stderr.read().decode()}"

    def kill(self):
        with self._popen:
            self._popen.kill()

    def left(self):
        yield from leftovers.marked(MARK, self.mark)
        yield from sorted(os.listdir(self.tmpdir))


@pytest.fixture
def programs(tmp_path):
    """Starts programs; kills them however the test ends, and reaps their orphans as init would."""
    started = []

    def start(method):
        tmpdir = tmp_path / str(len(started))
        tmpdir.mkdir()
        started.append(Program(method, tmpdir))
        return started[-1]

    yield start
    for program in started:
        program.kill()
    leftovers.await_none(lambda: [what for program in started for what in program.left()], within_s=10.0)
    for process in leftovers.descendants():
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process.pid, os.WNOHANG)


@pytest.mark.parametrize("round_", range(5))
@pytest.mark.parametrize("moment", ["starting", "stepping"])
def test_nothing_is_left_of_a_program_that_is_killed(moment, round_, programs):
    """Five programs at once, ten times: fifty random moments."""
    rng = random.Random(f"{moment}{round_}")
    some = [programs(method) for method in rng.choices(["fork", "forkserver", "spawn"], k=AT_ONCE)]
    if moment == "stepping":
        for program in some:
            program.await_up()
    for program in some:
        time.sleep(rng.random() * (0.5 if moment == "starting" else 0.05))
        program.kill()
    left = leftovers.await_none(lambda: [what for program in some for what in program.left()], within_s=GONE_S)
    assert not left, f"left behind: {[str(what) for what in left]}"
