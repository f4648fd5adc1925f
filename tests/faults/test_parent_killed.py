"""The user's program is killed by SIGKILL at any moment: nothing of it is left after two seconds."""

from __future__ import annotations

import random
import time

import pytest

from ninelives.testing import leftovers

GONE_S = 2.0
AT_ONCE = 5

PROGRAM = """
import sys, ninelives
from ninelives.testing import Fragile, When

class Messy:
    '''Slot 0 has children of three kinds, slot 1 hangs in native code at its third step.'''
    def __call__(self):
        for fault in ("have_child", "have_daemon", "have_forked_daemon"):
            Fragile(fault, When("construct", slots=(0,)))()
        return Fragile("hang_native", When("step", at=3, slots=(1,)))()

# A hang that lasts: these programs wait for each other to be up, which takes long on a busy machine.
pool = ninelives.Pool(Messy(), 3, workers=3, start_method=sys.argv[1], batch_size=1, step_timeout_s=600)
pool.reset(seed=1)
print("up", flush=True)
pool.send([0, 0, 0])
while True:
    batch = pool.recv()
    pool.send([0] * len(batch), batch.slots)
"""


@pytest.mark.parametrize("round_", range(5))
@pytest.mark.parametrize("moment", ["starting", "stepping"])
def test_nothing_is_left_of_a_program_that_is_killed(moment, round_, run_program):
    """Five programs at once, ten times: fifty random moments."""
    rng = random.Random(f"{moment}{round_}")
    some = [run_program("-c", PROGRAM, method) for method in rng.choices(["fork", "forkserver", "spawn"], k=AT_ONCE)]
    if moment == "stepping":
        for program in some:
            program.await_line("up")
    for program in some:
        time.sleep(rng.random() * (0.5 if moment == "starting" else 0.05))
        program.kill()
    left = leftovers.await_none(lambda: [what for program in some for what in program.left()], within_s=GONE_S)
    assert not left, f"left behind: {left}"
