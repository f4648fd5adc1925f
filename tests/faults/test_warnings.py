"""What the user's own program hears of faults: a warning for the first one that is not healed, and per quarantine."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from scenes import pool_of

import ninelives
from ninelives.testing import CountingEnv, Fragile, When

SLOTS, GUILTY = 4, 2
ACTIONS = np.zeros(SLOTS, np.int64)
ALWAYS = When("step", at=3, again=True, slots=(GUILTY,), generations=None)


def said_by(env, steps, **settings):
    """The texts and places of the warnings of a pool that is stepped."""
    with warnings.catch_warnings(record=True) as said, pool_of(env, **settings) as pool:
        warnings.simplefilter("always")
        pool.reset(seed=1)
        for _ in range(steps):
            pool.step(ACTIONS)
    assert all(one.category is ninelives.NinelivesWarning for one in said)
    assert {one.filename for one in said} <= {__file__}, "a warning names the user's line"
    return [str(one.message) for one in said]


@pytest.mark.parametrize("on_fault", ["heal", "cut"])
@pytest.mark.parametrize(("fault", "cause"), [("raise_error", "RuntimeError"), ("segfault", "SIGSEGV")])
def test_the_first_fault_that_is_not_healed_gives_a_warning_and_the_next_ones_none(on_fault, fault, cause):
    (text,) = said_by(Fragile(fault, ALWAYS), 20, on_fault=on_fault, max_restarts_per_slot=100)
    assert text.startswith(f"slot {GUILTY} lost its episode: ")
    assert cause in text
    assert "run_dir=" in text
    assert "`ninelives doctor RUN_DIR`" in text


def test_the_line_of_the_doctor_names_the_run_directory(tmp_path):
    (text,) = said_by(Fragile("raise_error", ALWAYS), 10, max_restarts_per_slot=100, run_dir=tmp_path / "run")
    assert f"`ninelives doctor {tmp_path / 'run'}`" in text


def test_every_quarantine_gives_a_warning():
    both = When("step", at=3, again=True, slots=(0, GUILTY), generations=None)
    first, *quarantines = said_by(Fragile("raise_error", both), 30, max_restarts_per_slot=4)
    assert "lost its episode" in first
    assert [re.match(r"slot (\d) is quarantined", text)[1] for text in quarantines] == ["0", str(GUILTY)]
    assert all("RuntimeError" in text and "`ninelives doctor RUN_DIR`" in text for text in quarantines)


def test_faults_that_are_healed_say_nothing(tmp_path):
    once = When("step", at=3, slots=(GUILTY,), generations=None, once=str(tmp_path / "once"))
    assert said_by(Fragile("segfault", once), 10, on_fault="heal") == []
    assert said_by(CountingEnv, 10) == []


def test_a_pool_goes_on_after_a_warning_that_is_an_error():
    with pool_of(Fragile("raise_error", ALWAYS), max_restarts_per_slot=100) as pool:
        pool.reset(seed=1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(ninelives.NinelivesWarning, match="lost its episode"):
                play(pool, 10)
            batch = play(pool, 10)
        assert batch.valid[[0, 1, 3]].all()


def play(pool, steps):
    for _ in range(steps):
        batch = pool.step(ACTIONS)
    return batch
