"""``make soak-faults`` in short: kills, stops, segfaults and exceptions at random change no row.

It is the program itself that fails if a row differs or is cut, if anything grows, or if anything is left behind.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[2] / "benchmarks" / "soak_faults.py"
SECONDS = 120 if os.environ.get("NINELIVES_FULL") == "1" else 15


@pytest.mark.timeout(900)
@pytest.mark.parametrize("shape", [["--slots=8", "--workers=2"], ["--slots=8", "--workers=4", "--batch-size=4"]])
def test_faults_of_all_kinds_at_random_moments_change_no_row(shape):
    command = [sys.executable, str(SOAK), f"--seconds={SECONDS}", "--every=0.4", *shape]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all equal" in done.stdout
