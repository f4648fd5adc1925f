"""Who broke how often, who is quarantined, and when the pool gives up."""

import dataclasses

import pytest

from ninelives import PoolExhaustedError, PoolOptions
from ninelives.errors import Fault
from ninelives.events import FaultSeen, SlotQuarantined
from ninelives.pool.workers.fault_budget import FaultBudget
from ninelives.testing.fakes import RecordingSink

CRASH = Fault("crashed", "killed by SIGSEGV", (0, 1), 0, 1, "step", culprit=0, seed=3, last_action=7, signal="SIGSEGV")


@pytest.fixture
def sink():
    return RecordingSink()


def ledger_of(sink, slots=3, **settings):
    return FaultBudget(slots, PoolOptions.of(settings), sink.emit)


def by(slot, culprit=True):
    return dataclasses.replace(CRASH, slots=(slot,), culprit=slot if culprit else None)


def test_a_noted_fault_is_told_with_all_its_facts_and_remembered(sink):
    budget = ledger_of(sink)
    budget.note(CRASH)
    (seen,) = sink.of(FaultSeen)
    for name in (
        "kind",
        "phase",
        "summary",
        "culprit",
        "signal",
        "seed",
        "last_action",
        "slots",
        "worker",
        "generation",
    ):
        assert getattr(seen, name) == getattr(CRASH, name)
    assert not seen.during_start
    assert budget.last_fault == {0: CRASH}
    assert budget.faults == 1


def test_only_the_slot_that_was_served_pays(sink):
    budget = ledger_of(sink, max_restarts_per_slot=0)
    budget.charge(CRASH, 0.0)
    assert budget.quarantined == {0}


def test_all_slots_of_the_worker_pay_if_none_was_served(sink):
    budget = ledger_of(sink, max_restarts_per_slot=0)
    budget.charge(dataclasses.replace(CRASH, culprit=None), 0.0)
    assert budget.quarantined == {0, 1}


def test_a_slot_is_quarantined_once_when_its_budget_is_spent(sink):
    budget = ledger_of(sink, max_restarts_per_slot=2, restart_window_s=60)
    for now in range(5):
        budget.charge(by(1), float(now))
        assert budget.quarantined == ({1} if now >= 2 else set())
    (told,) = sink.of(SlotQuarantined)
    assert (told.slots, told.restarts, told.window_s) == ((1,), 3, 60)


def test_a_slot_budget_can_be_an_error_instead(sink):
    budget = ledger_of(sink, max_restarts_per_slot=1, on_exhausted="raise")
    budget.note(by(1))
    budget.charge(by(1), 0.0)
    with pytest.raises(PoolExhaustedError, match="slots \\[1\\] broke more than 1 times in 300 s") as exhausted:
        budget.charge(by(1), 1.0)
    assert exhausted.value.faults == {1: by(1)}
    assert "max_restarts_per_slot" in str(exhausted.value)


def test_the_pool_gives_up_when_its_own_budget_is_spent(sink):
    budget = ledger_of(sink, max_restarts=2)
    budget.charge(by(0), 0.0)
    budget.charge(by(1), 1.0)
    with pytest.raises(PoolExhaustedError, match="more than 2 faults in 300 s; raise max_restarts"):
        budget.charge(by(2), 2.0)


def test_the_pool_gives_up_when_nobody_is_left(sink):
    budget = ledger_of(sink, slots=2, max_restarts_per_slot=0)
    budget.charge(by(0), 0.0)
    with pytest.raises(PoolExhaustedError, match="every slot is quarantined"):
        budget.charge(by(1), 1.0)
