"""All command lines of the README run, in order and in one directory, as a reader would run them."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)
NOT_RUN_HERE = {"make demo", "make test", "pip install '.[train,cores,tensorboard]'", ". .venv/bin/activate"}
"""Commands that continuous integration itself runs, that install something, or that only change a shell."""


def commands() -> list[str]:
    blocks = BLOCK.findall((ROOT / "README.md").read_text())
    lines = [line.partition("#")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line]


def test_the_readme_has_commands_of_known_kinds_only():
    assert {line for line in commands() if not line.startswith("ninelives ")} == NOT_RUN_HERE


@pytest.mark.timeout(600)
def test_every_command_of_the_readme_runs(tmp_path: Path):
    for line in commands():
        if line in NOT_RUN_HERE:
            continue
        words = [sys.executable, "-m", *shlex.split(line)]
        done = subprocess.run(words, cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
