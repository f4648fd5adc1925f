"""Programs in a Python of their own: what this one has imported, or lacks, must not matter."""

import subprocess
import sys
import textwrap


def run_program(program, *flags, check=True):
    command = [sys.executable, *flags, "-c", textwrap.dedent(program)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=check)
