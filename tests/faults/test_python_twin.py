"""The same tests without the native modules: slower, with equal results."""

from __future__ import annotations

import pytest
from scenes import DEADLINE_S, FAULT_STEP, FELLOW, GUILTY, OTHERS, PROMPT_S, deadlines, film, pool_of

from ninelives.testing import CountingEnv, Fragile, When


@pytest.fixture(autouse=True)
def _without_native(monkeypatch):
    monkeypatch.setenv("NINELIVES_NATIVE", "0")


def test_rows_are_the_same_without_the_native_modules(undisturbed):
    with pool_of(CountingEnv, start_method="forkserver") as pool:
        assert film(pool).equals(undisturbed, range(4))


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("segfault", "crashed"),
        ("exit_zero", "crashed"),
        ("sys_exit", "crashed"),
        ("hang_native", "hung"),
        ("hang_holding_gil", "hung"),
        ("stop_self", "hung"),
    ],
)
def test_fault_of_a_worker_is_reported_and_cut_alike(fault, kind, undisturbed):
    env = Fragile(fault, When("step", at=FAULT_STEP, slots=(GUILTY,)))
    with pool_of(env, start_method="fork", **deadlines("step")) as pool:
        seen = film(pool)
    assert seen.slowest_s < DEADLINE_S + PROMPT_S
    assert [(t, slot, fault.kind) for t, slot, fault in seen.faults()] == [
        (FAULT_STEP, FELLOW, kind),
        (FAULT_STEP, GUILTY, kind),
    ]
    assert seen.equals(undisturbed, OTHERS)
    if kind == "hung" and fault != "stop_self":
        assert f"in {fault}" in seen.faults()[0][2].stderr_tail


@pytest.mark.parametrize("fault", ["nan_reward", "wrong_shape", "info_not_dict", "wrong_tuple", "raise_error"])
def test_fault_of_an_environment_costs_only_its_own_slot_alike(fault, undisturbed, tmp_path):
    env = Fragile(fault, When("step", at=FAULT_STEP, slots=(GUILTY,), once=str(tmp_path / "once")))
    with pool_of(env, start_method="fork") as pool:
        seen = film(pool)
    assert [(t, slot) for t, slot, _ in seen.faults()] == [(FAULT_STEP, GUILTY)]
    assert seen.equals(undisturbed, (FELLOW, *OTHERS))


def test_close_of_a_hung_worker_is_bounded_alike():
    pool = pool_of(Fragile("hang_native", When("step", slots=(GUILTY,))), start_method="fork", close_timeout_s=1.0)
    pool.reset(seed=1)
    pool.send([0, 0, 0, 0])
    pool.close()
