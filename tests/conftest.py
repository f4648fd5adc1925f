"""Fails every test that leaves something behind: a process, a descriptor, a segment, a directory."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import tempfile
from pathlib import Path

import hypothesis
import pytest

from ninelives.testing import leftovers

pytest_plugins = ["missing"]

# Speed is measured in benchmarks: an example that is slow on a busy machine is not a failure.
hypothesis.settings.register_profile("ninelives", deadline=None)
hypothesis.settings.load_profile("ninelives")

CORES = Path(__file__).parents[1] / ".cores"
if CORES.is_dir():
    os.environ.setdefault("NINELIVES_CORES", str(CORES))

PR_SET_CHILD_SUBREAPER = 36
GRACE_S = 2.0
FAILED = pytest.StashKey[bool]()


@pytest.fixture(scope="session", autouse=True)
def _adopt_everything(tmp_path_factory):
    """This process adopts orphans, and temporary files go into one directory, so that every leak is seen."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # A shell starts background jobs with SIGINT ignored, and programs under test would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    before = os.environ.get("TMPDIR")
    place = str(tmp_path_factory.mktemp("tmpdir"))
    os.environ["TMPDIR"] = tempfile.tempdir = place
    yield
    tempfile.tempdir = None
    if before is None:
        del os.environ["TMPDIR"]
    else:
        os.environ["TMPDIR"] = before


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "call":
        item.stash[FAILED] = report.failed
    return report


@pytest.fixture(autouse=True)
def _nothing_is_left_behind(request, _adopt_everything):
    processes = {process.pid for process in leftovers.descendants()}
    descriptors = len(_own_descriptors())
    segments, directories = leftovers.segments(), leftovers.directories(tempfile.gettempdir())
    yield
    request.node.funcargs.clear()  # a closed pool keeps its memory mapped while a fixture value refers to it

    def left():
        yield from (str(process) for process in leftovers.descendants() if process.pid not in processes)
        yield from (f"/dev/shm/{name}" for name in leftovers.segments() - segments)
        yield from (f"$TMPDIR/{name}" for name in leftovers.directories(tempfile.gettempdir()) - directories)
        # The traceback of a failed test refers to its pools, and those to their memory: that is not a leak.
        if len(_own_descriptors()) > descriptors and not request.node.stash.get(FAILED, False):
            gc.collect()
            if len(_own_descriptors()) > descriptors:
                yield f"{descriptors} descriptors became {sorted(_own_descriptors().items())}"

    still_there = leftovers.await_none(left, within_s=GRACE_S)
    assert not still_there, "left behind:\n  " + "\n  ".join(map(str, still_there))


def _own_descriptors():
    """Open descriptors, except the one that the standard library keeps for its resource tracker."""
    tracker = sys.modules.get("multiprocessing.resource_tracker")
    kept = tracker._resource_tracker._fd if tracker else None
    return {fd: target for fd, target in leftovers.descriptors().items() if fd != kept}
