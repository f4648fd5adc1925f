"""A program whose standard files are closed, as daemons and some schedulers start it."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import pathlib, sys
import numpy as np
import ninelives
from ninelives.testing import CountingEnv, Fragile, When

env = Fragile("segfault", When("step", at=3, slots=(1,)))
with ninelives.Pool(env, 2, workers=2, start_method=sys.argv[1]) as pool:
    pool.reset(seed=1)
    steps = [pool.step(np.zeros(2, np.int64)) for _ in range(5)]
pathlib.Path(sys.argv[2]).write_text(str([step.valid.tolist() for step in steps]))
"""


@pytest.mark.parametrize("closed", ["<&-", "<&- >&- 2>&-"], ids=["stdin", "all three"])
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_pool_works_and_heals_where_standard_files_are_closed(method, closed, tmp_path):
    result = tmp_path / "result"
    words = [sys.executable, "-c", PROGRAM, method, str(result)]
    done = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", *words], timeout=60, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert result.read_text() == str([[True, True]] * 5)
