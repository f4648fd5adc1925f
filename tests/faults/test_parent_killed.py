"""The user's program is killed by SIGKILL at any moment: nothing of it is left after two seconds."""

from __future__ import annotations

import random
import time

import pytest
from scenes import IS_FULL

from ninelives.testing import leftovers

GONE_S = 2.0
METHODS = ("fork", "forkserver", "spawn")
ROUNDS = 8 if IS_FULL else 2
"""Of three programs, for each of two moments: 48 random moments in the full run, 12 in the usual one."""

PROGRAM = """
import sys, ninelives
from ninelives.testing import Fragile, When

class Messy:
    '''Slot 0 has children of three kinds, slot 1 hangs in native code at its third step.'''
    def __call__(self):
        for fault in ("have_child", "have_daemon", "have_forked_daemon"):
            Fragile(fault, When("construct", slots=(0,)))()
        return Fragile("hang_native", When("step", at=3, slots=(1,)))()

# The hang must outlast the start of all programs, which takes long on a busy machine.
pool = ninelives.Pool(Messy(), 3, workers=3, start_method=sys.argv[1], batch_size=1, step_timeout_s=600)
pool.reset(seed=1)
print("up", flush=True)
pool.send([0, 0, 0])
while True:
    batch = pool.recv()
    pool.send([0] * len(batch), batch.slots)
"""


@pytest.mark.parametrize("round_", range(ROUNDS))
@pytest.mark.parametrize("moment", ["starting", "stepping"])
def test_nothing_is_left_of_a_program_that_is_killed(moment, round_, run_program):
    """One program by each start method, at once."""
    rng = random.Random(f"{moment}{round_}")
    some = [run_program("-c", PROGRAM, method) for method in rng.sample(METHODS, k=len(METHODS))]
    if moment == "stepping":
        for program in some:
            program.await_line("up")
    for program in some:
        time.sleep(rng.random() * (0.5 if moment == "starting" else 0.05))
        program.kill()
    left = leftovers.await_none(lambda: [what for program in some for what in program.left()], within_s=GONE_S)
    assert not left, f"left behind: {left}"
