"""A small pytest session that uses our own ``conftest.py``."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]


def run_session(place, tests, conftest="", **environ):
    """The result of pytest on one file ``tests``; ``conftest`` is appended to our own."""
    (place / "conftest.py").write_text((TESTS / "conftest.py").read_text() + conftest)
    (place / "test_small.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rEfs", "--tb=short", str(place)]
    environ = {**os.environ, "PYTHONPATH": str(TESTS), **environ}
    return subprocess.run(command, capture_output=True, text=True, cwd=place, env=environ, check=False)
