"""A process forked from the user's program inherits its pools. They are not its own, and its calls shift nothing."""

from __future__ import annotations

import os
import traceback

import numpy as np
import pytest

import ninelives
from ninelives.testing import CountingEnv, Referee
from ninelives.testing.counting import ACTIONS

SLOTS = 4
ACTION = np.zeros(SLOTS, np.int64)

CALLS = {
    "step": lambda pool: pool.step(ACTION),
    "send": lambda pool: pool.send(ACTION),
    "recv": lambda pool: pool.recv(),
    "reset": lambda pool: pool.reset(seed=3),
    "latest": lambda pool: pool.latest(),
    "call": lambda pool: pool.call("render"),
    "save_states": lambda pool: pool.save_states(),
    "checkpoint": lambda pool: pool.checkpoint(),
    "metrics": lambda pool: pool.metrics(),
}


def refusals(pool):
    """In a forked child: what each call raises; its own process ends before anything of pytest runs in it."""
    reader, writer = os.pipe()
    if not os.fork():
        try:
            for name, call in CALLS.items():
                os.write(writer, f"{name}: {raised(call, pool)}\n".encode())
            pool.close()
        except BaseException:
            os.write(writer, traceback.format_exc().encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        lines = said.read().splitlines()
    os.wait()
    return lines


def raised(call, pool):
    try:
        call(pool)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


@pytest.mark.parametrize("native", ["1", "0"])
def test_every_call_of_a_forked_child_is_refused_and_the_owners_rows_do_not_shift(monkeypatch, native):
    monkeypatch.setenv("NINELIVES_NATIVE", native)
    referee, draw = Referee(SLOTS), np.random.default_rng(0)
    with ninelives.Pool(CountingEnv, SLOTS, workers=2, start_method="fork") as pool:
        referee.reset(pool.reset(seed=1))
        for number in range(20):
            actions = draw.integers(0, ACTIONS, SLOTS)
            referee.step(actions, pool.step(actions))
            if number == 10:
                lines = refusals(pool)
        assert referee.valid_rows == SLOTS * 21
    assert [line.split(":")[0] for line in lines] == list(CALLS)
    for line in lines:
        assert f"UsageError: this pool belongs to process {os.getpid()}" in line
        assert "make a new pool" in line


def test_a_child_may_have_a_pool_of_its_own():
    with ninelives.Pool(CountingEnv, 2, workers=1, start_method="fork") as pool:
        pool.reset(seed=1)
        child = os.fork()
        if not child:
            status = 1
            try:
                with ninelives.Pool(CountingEnv, 2, workers=1, start_method="fork") as own:
                    own.reset(seed=1)
                    status = 0 if own.step([0, 0]).valid.all() else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert pool.step([0, 0]).valid.all()
