"""``reset`` of some slots drops the answers of the others, but not what went wrong in them."""

from __future__ import annotations

import numpy as np
import pytest
from streams import SEED, SLOTS, of_kind, pool_of

from ninelives.events import FaultSeen
from ninelives.testing import Fragile, When
from ninelives.testing.counting import STEP

GUILTY, RESET = 0, 1
ACTIONS = np.zeros(SLOTS, np.int64)


@pytest.fixture
def fragile(tmp_path):
    """Raises in its fourth step, once."""
    return Fragile("raise_error", When("step", at=4, slots=(GUILTY,), once=str(tmp_path / "once")))


def step_after_dropped_answers(pool):
    pool.reset(seed=SEED)
    for _ in range(3):
        pool.step(ACTIONS)
    pool.send(ACTIONS)
    pool.reset(slots=[RESET])
    return pool.step(ACTIONS)


def test_a_slot_that_failed_in_a_dropped_step_is_healed(fragile):
    with pool_of(fragile) as pool:
        batch = step_after_dropped_answers(pool)
        assert [fault.slots for fault in of_kind(pool, FaultSeen)] == [(GUILTY,)]
    assert batch.valid.all()
    assert batch.obs[:, STEP].tolist() == [5, 1, 5, 5]


def test_a_slot_that_failed_in_a_dropped_step_is_cut(fragile):
    with pool_of(fragile, on_fault="cut") as pool:
        batch = step_after_dropped_answers(pool)
        assert [fault.slots for fault in of_kind(pool, FaultSeen)] == [(GUILTY,)]
    assert batch.valid.tolist() == [False, True, True, True]
    assert batch.obs[:, STEP].tolist() == [0, 1, 5, 5]
