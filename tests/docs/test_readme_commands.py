"""Every command line of the README runs, in its order and in one directory, as a reader would run it."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)
BY_CI = {"make demo", "make test"}
"""Commands that continuous integration itself is made of, or that install things."""


def commands() -> list[str]:
    blocks = BLOCK.findall((ROOT / "README.md").read_text())
    lines = [line.partition("#")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line]


def test_the_readme_has_commands_of_known_kinds_only():
    assert {line for line in commands() if not line.startswith("ninelives ")} == BY_CI


@pytest.mark.timeout(600)
def test_every_command_of_the_readme_runs(tmp_path: Path):
    for line in commands():
        if line in BY_CI:
            continue
        words = [sys.executable, "-m", *shlex.split(line)]
        done = subprocess.run(words, cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
