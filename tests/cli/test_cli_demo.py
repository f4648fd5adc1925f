"""``rookery demo``: it kills one of its own workers, and says truly whether the run went on."""

import re
from types import SimpleNamespace

import numpy as np

from rookery.cli.tale import SLOTS, Tale
from rookery.events import SlotHealed

VICTIMS = (4, 5, 6, 7)


def test_the_demo_kills_a_worker_and_goes_on(rookery):
    done = rookery("demo", "--seconds", "2")
    assert (done.code, done.err) == (0, "")
    assert "CartPole-v1: 16 slots, 4 workers" in done.out
    assert "was killed by SIGKILL: 1 fault seen" in done.out
    assert re.search(r"its slots 4-7 were back in the same state after .*: [\d,]+ steps? repeated", done.out)
    assert re.search(r"the other 12 slots made [\d,]+ steps? meanwhile; 0 rows lost", done.out)
    assert "the run went on" in done.out


def test_a_demo_without_time_is_a_usage_error(rookery):
    done = rookery("demo", "--seconds", "0")
    assert done.code == 2
    assert "must be greater than zero" in done.err


def batch(valid=(), invalid=()):
    """Rows of some slots: good ones and masked ones."""
    slots = np.array([*valid, *invalid], np.int64)
    return SimpleNamespace(slots=slots, valid=np.array([slot in valid for slot in slots], bool))


def killed_tale():
    tale = Tale(VICTIMS)
    tale.see(batch(valid=range(SLOTS)), 0.0)
    tale.killed_pid, tale.killed_s, tale.rows_before = 7, 1.0, tale.rows.copy()
    return tale


def healed(slots):
    return [SlotHealed(slots=(slot,), seconds=0.1, replayed=3, from_step=0) for slot in slots]


def test_slots_that_come_back_while_no_row_is_lost_are_a_run_that_went_on():
    tale = killed_tale()
    tale.see(batch(valid=tale.others), 1.1)
    tale.hear(healed(VICTIMS[:3]), 1.2)
    assert not tale.went_on
    tale.hear(healed(VICTIMS), 1.5)
    tale.see(batch(valid=range(SLOTS)), 1.6)
    assert tale.went_on
    assert tale.back_s == 0.5
    assert "the other 12 slots made 12 steps meanwhile; 0 rows lost" in tale.lines()
    assert "12 steps repeated" in tale.lines()[-3]


def test_a_masked_row_is_not_a_run_that_went_on():
    tale = killed_tale()
    tale.see(batch(valid=[slot for slot in tale.others if slot != 0], invalid=[0]), 1.1)
    tale.hear(healed(VICTIMS), 1.5)
    tale.see(batch(valid=range(SLOTS)), 1.6)
    assert not tale.went_on
    assert "1 row lost" in tale.lines()[-2]


def test_slots_that_never_come_back_are_not_a_run_that_went_on():
    tale = killed_tale()
    tale.see(batch(valid=tale.others), 1.1)
    assert not tale.went_on
    assert "never came back" in tale.lines()[-1]
