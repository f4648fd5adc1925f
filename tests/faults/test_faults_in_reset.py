"""A fault under ``reset``: the first one, which the user waits for, and later ones, which come by themselves."""

from __future__ import annotations

import time
from functools import partial

import pytest
from scenes import (
    DEADLINE_S,
    EXITS,
    FELLOW,
    GUILTY,
    OTHERS,
    PROMPT_S,
    SEED,
    SIGNALS,
    actions_at,
    crossed,
    deadlines,
    film,
    of_kind,
    pool_of,
)

import ninelives
from ninelives.events import FaultSeen
from ninelives.testing import CountingEnv, Fragile, When
from ninelives.testing.counting import EPISODE, STEP
from ninelives.testing.faults import ENDS, HANGS

FIRST = When("reset", at=1, slots=(GUILTY,))
SECOND = When("reset", at=2, slots=(GUILTY,))
BAD_RESETS = ("wrong_shape", "wrong_dtype", "nan_observation", "info_not_dict", "wrong_tuple", "raise_error")


def assert_facts(fault, kind):
    assert (fault.kind, fault.phase, fault.culprit, fault.worker) == (kind, "reset", GUILTY, 0)
    assert fault.seed == SEED + GUILTY
    assert fault.last_action is None


@pytest.mark.parametrize(("fault", "method"), crossed("reset", ENDS))
def test_crash_in_the_first_reset_is_tried_again_until_every_row_is_true(fault, method, undisturbed):
    with pool_of(Fragile(fault, FIRST), start_method=method) as pool:
        seen = film(pool)
        faults = of_kind(pool, FaultSeen)
    assert seen.slowest_s < PROMPT_S
    assert seen.batches[0].valid.all()
    assert seen.equals(undisturbed, OTHERS)
    assert len(faults) == 1
    assert_facts(faults[0], "crashed")
    assert (faults[0].signal, faults[0].exit_code) == (SIGNALS.get(fault), EXITS.get(fault))


@pytest.mark.parametrize(("fault", "method"), crossed("reset", HANGS))
def test_hang_in_the_first_reset_is_killed_at_the_reset_deadline_and_tried_again(fault, method, undisturbed):
    with pool_of(Fragile(fault, FIRST), start_method=method, **deadlines("reset")) as pool:
        seen = film(pool)
        faults = of_kind(pool, FaultSeen)
    assert DEADLINE_S < seen.slowest_s < DEADLINE_S + PROMPT_S
    assert seen.batches[0].valid.all()
    assert seen.equals(undisturbed, OTHERS)
    assert_facts(faults[0], "hung")
    if fault != "stop_self":
        assert f"in {fault}" in faults[0].stderr_tail


@pytest.mark.parametrize(("fault", "method"), crossed("reset", BAD_RESETS))
def test_bad_answer_of_the_first_reset_is_asked_again_of_a_new_environment(fault, method, tmp_path, undisturbed):
    once = When("reset", at=1, slots=(GUILTY,), once=str(tmp_path / "once"))
    with pool_of(Fragile(fault, once), start_method=method) as pool:
        pids = pool.worker_pids
        seen = film(pool)
        faults = of_kind(pool, FaultSeen)
        assert pool.worker_pids == pids
    assert seen.batches[0].valid.all()
    assert seen.equals(undisturbed, (FELLOW, *OTHERS))
    assert_facts(faults[0], "raised" if fault == "raise_error" else "bad_data")


@pytest.mark.parametrize(
    ("fault", "method"), crossed("reset", ["segfault", "hang_native", "nan_observation", "raise_error"])
)
def test_fault_in_the_first_reset_raises_when_asked_to(fault, method):
    kinds = {"hang_native": ninelives.WorkerHungError, "nan_observation": ninelives.BadDataError,
             "raise_error": ninelives.EnvRaisedError}  # fmt: skip
    with pool_of(Fragile(fault, FIRST), start_method=method, on_fault="raise", **deadlines("reset")) as pool:
        began = time.monotonic()
        with pytest.raises(kinds.get(fault, ninelives.WorkerCrashedError)) as caught:
            pool.reset(seed=SEED)
        assert time.monotonic() - began < DEADLINE_S + PROMPT_S
    assert caught.value.fault.phase == "reset"
    assert caught.value.fault.culprit == GUILTY


@pytest.fixture(scope="module")
def calm_runs():
    """The same short episodes with no fault, by the way of autoreset."""
    runs = {}
    for autoreset in ("next_step", "same_step"):
        with pool_of(partial(CountingEnv, 3), start_method="fork", autoreset=autoreset) as pool:
            runs[autoreset] = [pool.reset(seed=SEED), *(pool.step(actions_at(t)) for t in range(1, 12))]
    return runs


@pytest.mark.parametrize(
    ("fault", "autoreset"),
    [
        ("segfault", "next_step"),
        ("segfault", "same_step"),
        ("exit_zero", "next_step"),
        ("sys_exit", "same_step"),
        ("hang_native", "next_step"),
        ("stop_self", "same_step"),
    ],
)
def test_fault_in_an_autoreset_cuts_the_row_and_the_others_never_notice(fault, autoreset, calm_runs):
    settings = {"start_method": "fork", "autoreset": autoreset, **deadlines("reset")}
    calm = calm_runs[autoreset]
    with pool_of(Fragile(fault, SECOND, episode_steps=3), **settings) as pool:
        seen = [pool.reset(seed=SEED), *(pool.step(actions_at(t)) for t in range(1, 12))]
        faults = of_kind(pool, FaultSeen)
    for one, other in zip(calm, seen, strict=True):
        assert one.obs[2:].tolist() == other.obs[2:].tolist()
        assert one.terminated[2:].tolist() == other.terminated[2:].tolist()
        assert other.valid[2:].all()
    cut = seen[4 if autoreset == "next_step" else 3]
    assert cut.truncated[GUILTY]
    assert not cut.valid[GUILTY]
    assert seen[-1].valid.all()
    assert [fault.phase for fault in faults] == ["reset"]


def test_episode_after_a_cut_begins_with_a_first_row():
    with pool_of(Fragile("raise_error", SECOND, episode_steps=3), start_method="fork") as pool:
        seen = film(pool)
    (t, slot, _), *_ = seen.faults()
    fresh = seen.batches[t + 1]
    assert (slot, fresh.obs[slot, STEP], fresh.obs[slot, EPISODE]) == (GUILTY, 0, 1)


@pytest.mark.parametrize("autoreset", ["next_step", "same_step", "disabled"])
def test_slot_whose_episode_ended_under_its_neighbours_crash_goes_on_like_every_other(autoreset):
    with pool_of(EndsBesideACrash(), num_envs=2, workers=1, start_method="fork", autoreset=autoreset) as pool:
        pool.reset(seed=SEED)
        cut = pool.step([0, 0])
        assert cut.truncated.all()
        assert not cut.valid.any()
        fresh = pool.step([0, 0])
        assert not fresh.valid.any()
        assert fresh.obs[:, STEP].tolist() == [0, 0]
        assert pool.step([0, 0]).valid.all()


class EndsBesideACrash:
    """Slot 0 ends its first episode in the very step in which slot 1 crashes."""

    def __call__(self):
        env = Fragile("segfault", When("step", slots=(GUILTY,)))()
        env._episode_steps = 1 if env.slot == FELLOW and env._place.generation == 1 else 0
        return env
