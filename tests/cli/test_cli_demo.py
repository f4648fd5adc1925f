"""``rookery demo``: it kills one of its own workers, and says truly whether the run went on."""

import re
from types import SimpleNamespace

import numpy as np

from rookery.cli.tale import SLOTS, Tale

VICTIMS = (4, 5, 6, 7)


def test_the_demo_kills_a_worker_and_goes_on(rookery):
    done = rookery("demo", "--seconds", "2")
    assert (done.code, done.err) == (0, "")
    assert "CartPole-v1: 16 slots, 4 workers" in done.out
    assert "was killed by SIGKILL: 1 fault seen" in done.out
    assert "its slots 4-7 stepped again after" in done.out
    assert re.search(r"the other 12 slots made [\d,]+ steps? meanwhile and lost 0 rows", done.out)
    assert "the run went on" in done.out


def test_a_demo_without_time_is_a_usage_error(rookery):
    done = rookery("demo", "--seconds", "0")
    assert done.code == 2
    assert "must be greater than zero" in done.err


def batch(valid=(), invalid=(), cut=()):
    """Rows of some slots: good ones, masked ones, and masked ones whose episode was cut."""
    slots = np.array([*valid, *invalid, *cut], np.int64)
    is_valid = np.array([slot in valid for slot in slots], bool)
    truncated = np.array([slot in cut for slot in slots], bool)
    return SimpleNamespace(slots=slots, valid=is_valid, truncated=truncated)


def killed_tale():
    tale = Tale(VICTIMS)
    tale.see(batch(valid=range(SLOTS)), 0.0)
    tale.killed_pid, tale.killed_s, tale.rows_before = 7, 1.0, tale.rows.copy()
    return tale


def test_cut_slots_that_come_back_while_nobody_else_is_masked_are_a_run_that_went_on():
    tale = killed_tale()
    others = tale.others
    tale.see(batch(valid=others, cut=VICTIMS), 1.1)
    tale.see(batch(valid=others, invalid=VICTIMS), 1.2)
    assert not tale.went_on
    tale.see(batch(valid=range(SLOTS)), 1.5)
    assert tale.went_on
    assert tale.back_s == 0.5
    assert "the other 12 slots made 36 steps meanwhile and lost 0 rows" in tale.lines()


def test_a_masked_row_of_another_slot_is_not_a_run_that_went_on():
    tale = killed_tale()
    tale.see(batch(valid=[slot for slot in tale.others if slot != 0], invalid=[0], cut=VICTIMS), 1.1)
    tale.see(batch(valid=range(SLOTS)), 1.5)
    assert not tale.went_on
    assert "lost 1 row" in tale.lines()[-2]


def test_slots_that_never_come_back_are_not_a_run_that_went_on():
    tale = killed_tale()
    tale.see(batch(valid=tale.others, cut=VICTIMS), 1.1)
    assert not tale.went_on
    assert "never came back" in tale.lines()[-1]
