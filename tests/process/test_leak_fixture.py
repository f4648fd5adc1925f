"""The leak fixture really fails tests that leave something behind: a small session that leaks in every way."""

from __future__ import annotations

import pytest
from small_session import run_session

LEAKS = """
import os, signal, subprocess, tempfile
import pytest
from ninelives.testing import leftovers

held = []

@pytest.fixture(scope="module", autouse=True)
def _end():
    yield
    for process in leftovers.descendants():
        os.kill(process.pid, signal.SIGKILL)
        os.waitpid(process.pid, 0)
    for process in held:
        process.returncode = 0

def test_process():
    held.append(subprocess.Popen(["sleep", "600"]))

def test_zombie():
    held.append(subprocess.Popen(["true"]))

def test_orphan():
    subprocess.run(["sh", "-c", "sleep 600 &"])

def test_directory():
    os.mkdir(os.path.join(tempfile.gettempdir(), "ninelives-1-left"))

def test_descriptor():
    os.open("/dev/null", os.O_RDONLY)

def test_segment():
    open("/dev/shm/ninelives-leak-test", "w").close()

def test_nothing():
    os.unlink("/dev/shm/ninelives-leak-test")
    process = subprocess.Popen(["true"])
    process.wait()
"""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    return run_session(tmp_path_factory.mktemp("leaks"), LEAKS, "GRACE_S = 0.2\n").stdout


@pytest.mark.parametrize("what", ["process", "zombie", "orphan", "directory", "descriptor", "segment"])
def test_leak_of_each_kind_fails_the_test_that_left_it(what, outcome):
    assert f"ERROR test_small.py::test_{what} - AssertionError: left behind" in outcome


def test_clean_test_passes(outcome):
    assert "test_nothing" not in outcome
    assert "7 passed, 6 errors" in outcome
