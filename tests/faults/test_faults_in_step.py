"""A fault in ``step``: what the learner sees, and that the other slots are not affected."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from scenes import (
    DEADLINE_S,
    EXITS,
    FAULT_STEP,
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
    pool_of,
)

import ninelives
from ninelives.testing import Fragile, When
from ninelives.testing.faults import BAD_ANSWERS, ENDS, HANGS

THEN = When("step", at=FAULT_STEP, slots=(GUILTY,))
WORDS = {
    "wrong_shape": "shape", "wrong_dtype": "dtype", "nan_observation": "NaN", "nan_reward": "NaN",
    "info_not_dict": "info", "wrong_tuple": "must return",
}  # fmt: skip
"""What the summary of a bad answer must mention."""


def assert_facts(fault, kind, generation=1):
    assert fault.kind == kind
    assert fault.phase == "step"
    assert fault.culprit == GUILTY
    assert fault.generation == generation
    assert fault.seed == SEED + GUILTY
    assert fault.last_action == actions_at(FAULT_STEP)[GUILTY]
    assert fault.pid
    assert fault.worker == 0


@pytest.mark.parametrize(("fault", "method"), crossed("step", ENDS))
def test_crash_in_a_step_cuts_the_rows_of_that_worker_and_of_no_other(fault, method, undisturbed):
    with pool_of(Fragile(fault, THEN), start_method=method) as pool:
        seen = film(pool)
    assert seen.slowest_s < PROMPT_S
    assert [(t, slot) for t, slot, _ in seen.faults()] == [(FAULT_STEP, FELLOW), (FAULT_STEP, GUILTY)]
    cut = seen.batches[FAULT_STEP]
    assert cut.truncated.tolist() == [True, True, False, False]
    assert cut.valid.tolist() == [False, False, True, True]
    assert not seen.batches[FAULT_STEP + 1].valid[:2].any()
    assert seen.batches[-1].valid.all()
    assert seen.equals(undisturbed, OTHERS)
    reported = seen.faults()[0][2]
    assert_facts(reported, "crashed")
    assert reported.slots == (FELLOW, GUILTY)
    assert reported.signal == SIGNALS.get(fault)
    assert reported.exit_code == EXITS.get(fault)
    if fault in ("segfault", "abort", "bus_error"):
        assert f"in {fault}" in reported.stderr_tail


@pytest.mark.parametrize(("fault", "method"), crossed("step", ["segfault", "exit_zero"]))
def test_crash_in_a_step_raises_when_asked_to(fault, method):
    with pool_of(Fragile(fault, THEN), start_method=method, on_fault="raise") as pool:
        began = time.monotonic()
        with pytest.raises(ninelives.WorkerCrashedError, match=SIGNALS.get(fault, "exited")) as caught:
            film(pool)
        assert time.monotonic() - began < PROMPT_S
    assert_facts(caught.value.fault, "crashed")


@pytest.mark.parametrize(("fault", "method"), crossed("step", HANGS))
def test_hung_worker_is_killed_at_its_step_deadline_and_shows_where_it_hung(fault, method, undisturbed):
    with pool_of(Fragile(fault, THEN), start_method=method, **deadlines("step")) as pool:
        seen = film(pool)
    assert DEADLINE_S < seen.slowest_s < DEADLINE_S + PROMPT_S
    assert [(t, slot) for t, slot, _ in seen.faults()] == [(FAULT_STEP, FELLOW), (FAULT_STEP, GUILTY)]
    assert seen.equals(undisturbed, OTHERS)
    assert seen.batches[-1].valid.all()
    reported = seen.faults()[0][2]
    assert_facts(reported, "hung")
    if fault != "stop_self":  # a stopped process cannot write
        assert f"in {fault}" in reported.stderr_tail


def test_hang_in_a_step_raises_when_asked_to():
    env = Fragile("hang_sleeping", THEN)
    with pool_of(env, start_method="fork", on_fault="raise", **deadlines("step")) as pool:
        began = time.monotonic()
        with pytest.raises(ninelives.WorkerHungError, match=r"hung in step.*limit 0\.5 s") as caught:
            film(pool)
        assert time.monotonic() - began < DEADLINE_S + PROMPT_S
    assert_facts(caught.value.fault, "hung")


@pytest.mark.parametrize(("fault", "method"), crossed("step", [*BAD_ANSWERS, "raise_error"]))
def test_environment_that_breaks_alone_costs_only_its_own_slot_and_no_process(fault, method, undisturbed, tmp_path):
    once = replace(THEN, once=str(tmp_path / "once"))  # the same process builds the next environment
    with pool_of(Fragile(fault, once), start_method=method) as pool:
        pids = pool.worker_pids
        seen = film(pool)
        assert pool.worker_pids == pids
    assert [(t, slot) for t, slot, _ in seen.faults()] == [(FAULT_STEP, GUILTY)]
    assert seen.equals(undisturbed, (FELLOW, *OTHERS))
    reported = seen.faults()[0][2]
    assert_facts(reported, "raised" if fault == "raise_error" else "bad_data")
    assert reported.slots == (GUILTY,)
    if fault == "raise_error":
        assert "RuntimeError: the zoo raised this on purpose" in reported.traceback
        assert "in raise_error" in reported.traceback
    else:
        assert WORDS[fault] in reported.summary


def test_bad_answer_raises_when_asked_to_and_names_what_is_wrong():
    with (
        pool_of(Fragile("wrong_dtype", THEN), start_method="fork", on_fault="raise") as pool,
        pytest.raises(ninelives.BadDataError, match="dtype") as caught,
    ):
        film(pool)
    assert_facts(caught.value.fault, "bad_data")


def test_exception_of_the_environment_raises_when_asked_to_with_its_own_traceback():
    with (
        pool_of(Fragile("raise_error", THEN), start_method="fork", on_fault="raise") as pool,
        pytest.raises(ninelives.EnvRaisedError, match="the zoo raised this on purpose") as caught,
    ):
        film(pool)
    assert "in raise_error" in caught.value.fault.traceback


def test_pool_that_raised_goes_on_after_another_reset():
    with pool_of(Fragile("segfault", THEN), start_method="fork", on_fault="raise") as pool:
        with pytest.raises(ninelives.WorkerCrashedError):
            film(pool)
        seen = film(pool)
        assert seen.batches[-1].valid.all()
