"""The undisturbed run that others are compared with; and programs that end with their test."""

from __future__ import annotations

import pytest
from programs import Program, reap_orphans
from scenes import film, pool_of

from ninelives.testing import CountingEnv, leftovers


@pytest.fixture(scope="session")
def undisturbed():
    with pool_of(CountingEnv, start_method="fork") as pool:
        return film(pool)


@pytest.fixture
def run_program(tmp_path):
    """Starts programs; ends them however the test ends."""
    started = []

    def start(*command, cwd=None):
        tmpdir = tmp_path / f"tmpdir-{len(started)}"
        tmpdir.mkdir()
        started.append(Program(command, tmpdir, cwd))
        return started[-1]

    yield start
    for program in started:
        program.kill()
    leftovers.await_none(lambda: [what for program in started for what in program.left()], within_s=10.0)
    reap_orphans()
