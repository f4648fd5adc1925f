"""Restart budgets: pauses that grow, quarantine of a slot, the end of a pool."""

from __future__ import annotations

import pytest
from scenes import FELLOW, GUILTY, OTHERS, SEED, actions_at, film, of_kind, pool_of

import ninelives
from ninelives.events import FaultSeen, RestartScheduled, SlotQuarantined
from ninelives.testing import CountingEnv, Fragile, When

ALWAYS = When("step", at=2, slots=(GUILTY,), generations=None)


@pytest.mark.parametrize("fault", ["segfault", "raise_error"])
def test_slot_that_breaks_too_often_is_quarantined_and_the_pool_goes_on(fault, undisturbed):
    with pool_of(Fragile(fault, ALWAYS), start_method="fork", max_restarts_per_slot=2) as pool:
        seen = film(pool, steps=30)
        out = of_kind(pool, SlotQuarantined)
        numbers = pool.metrics()
    assert [(event.slots, event.restarts) for event in out] == [((GUILTY,), 3)]
    assert not seen.rows("valid", (GUILTY,))[-10:].any()
    assert seen.rows("valid", (FELLOW, *OTHERS))[-10:].all()
    assert seen.rows("truncated", (GUILTY,)).sum() == 3
    assert [slot.quarantined for slot in numbers.slots] == [False, True, False, False]
    assert (seen.rows("obs", OTHERS)[:9] == undisturbed.rows("obs", OTHERS)).all()


def test_quarantined_slot_has_no_environment_to_call():
    with pool_of(Fragile("raise_error", ALWAYS), start_method="fork", max_restarts_per_slot=0) as pool:
        film(pool, steps=6)
        with pytest.raises(ninelives.UsageError, match=r"slots \[1\] are quarantined"):
            pool.call("slot")
        assert pool.call("slot", slots=[0, 2, 3]) == (0, 2, 3)


def test_reset_after_a_quarantine_gives_masked_rows_for_that_slot_only():
    with pool_of(Fragile("segfault", ALWAYS), start_method="fork", max_restarts_per_slot=0) as pool:
        film(pool, steps=6)
        batch = pool.reset(seed=SEED)
        assert batch.valid.tolist() == [True, False, True, True]


def test_slot_budget_raises_when_asked_to():
    settings = {"start_method": "fork", "max_restarts_per_slot": 2, "on_exhausted": "raise"}
    with pool_of(Fragile("segfault", ALWAYS), **settings) as pool:
        with pytest.raises(ninelives.PoolExhaustedError, match=r"slots \[1\] broke more than 2 times") as caught:
            film(pool, steps=30)
        with pytest.raises(ninelives.PoolExhaustedError):
            pool.step(actions_at(1))
    assert caught.value.faults[GUILTY].signal == "SIGSEGV"


def test_pool_gives_up_when_its_own_budget_is_spent_and_lists_the_last_fault_of_each_slot():
    env = Fragile("segfault", When("step", at=2, generations=None))
    with (
        pool_of(env, start_method="fork", max_restarts=5) as pool,
        pytest.raises(ninelives.PoolExhaustedError, match="more than 5 faults") as caught,
    ):
        film(pool, steps=50)
    assert caught.value.faults
    assert "killed by SIGSEGV" in str(caught.value)


def test_pool_gives_up_when_every_slot_is_quarantined():
    env = Fragile("raise_error", When("step", at=2, generations=None))
    with (
        pool_of(env, start_method="fork", max_restarts_per_slot=1) as pool,
        pytest.raises(ninelives.PoolExhaustedError, match="every slot is quarantined") as caught,
    ):
        film(pool, steps=50)
    assert sorted(caught.value.faults) == [0, 1, 2, 3]


def test_slot_that_never_survives_a_reset_ends_in_quarantine_and_not_in_an_endless_loop():
    env = Fragile("segfault", When("reset", slots=(GUILTY,), generations=None))
    with pool_of(env, start_method="fork", max_restarts_per_slot=3) as pool:
        batch = pool.reset(seed=SEED)
        assert batch.valid.tolist() == [True, False, True, True]
        assert len(of_kind(pool, FaultSeen)) == 4


def test_pause_before_a_restart_grows_while_nothing_works_and_starts_anew_after_progress():
    with pool_of(Fragile("segfault", ALWAYS), start_method="fork", backoff_s=0.05, restart_wait_s=5.0) as pool:
        film(pool, steps=16)
        delays = [event.delay_s for event in of_kind(pool, RestartScheduled)]
    assert delays[0] == 0.0
    assert 0.025 <= delays[1] <= 0.05
    assert 0.05 <= delays[2] <= 0.1
    rare = Fragile("segfault", When("step", at=60, slots=(GUILTY,), generations=None))
    with pool_of(rare, start_method="fork", backoff_s=5.0) as pool:
        film(pool, steps=200)
        assert [event.delay_s for event in of_kind(pool, RestartScheduled)] == [0.0, 0.0, 0.0]


def test_batch_waits_for_a_restart_only_so_long_and_then_goes_on_with_masked_rows():
    settings = {"start_method": "fork", "backoff_s": 60.0, "restart_wait_s": 0.1, "max_restarts_per_slot": 100}
    with pool_of(Fragile("segfault", ALWAYS), **settings) as pool:
        seen = film(pool, steps=20)
    assert seen.slowest_s < 10.0, "the second restart comes after fifteen seconds at the earliest"
    assert seen.rows("valid", OTHERS).all()
    masked = ~seen.rows("valid", (GUILTY,))[:, 0]
    assert masked.sum() > seen.rows("truncated", (GUILTY,)).sum() * 2


def test_healthy_pool_schedules_no_restart():
    with pool_of(CountingEnv, start_method="fork") as pool:
        film(pool)
        assert not of_kind(pool, RestartScheduled)
