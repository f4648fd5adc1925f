"""One of each kind of fault with ``start_method="spawn"``, where every start is a new interpreter."""

from __future__ import annotations

import pytest
from scenes import DEADLINE_S, FAULT_STEP, FELLOW, GUILTY, OTHERS, PROMPT_S, deadlines, film, of_kind, pool_of

import ninelives
from ninelives.events import FaultSeen
from ninelives.testing import Fragile, When

SPAWN_S = 2.0
"""A new interpreter on a busy machine."""


@pytest.mark.parametrize(
    ("fault", "kind"),
    [("segfault", "crashed"), ("hang_native", "hung"), ("nan_reward", "bad_data")],
)
def test_fault_in_a_step_of_a_spawned_worker_is_cut_and_the_others_never_notice(fault, kind, undisturbed):
    env = Fragile(fault, When("step", at=FAULT_STEP, slots=(GUILTY,)))
    with pool_of(env, start_method="spawn", restart_wait_s=5.0, **deadlines("step")) as pool:
        seen = film(pool)
    assert seen.slowest_s < DEADLINE_S + PROMPT_S + SPAWN_S
    t, slot, reported = seen.faults()[-1 if kind == "bad_data" else 1]
    assert (slot, reported.kind, reported.phase, reported.culprit) == (GUILTY, kind, "step", GUILTY)
    assert not seen.batches[t].valid[GUILTY]
    assert seen.equals(undisturbed, (FELLOW, *OTHERS) if kind == "bad_data" else OTHERS)


@pytest.mark.parametrize(("fault", "phase"), [("segfault", "import"), ("raise_error", "construct")])
def test_spawned_worker_that_cannot_start_is_reported_with_the_cause(fault, phase):
    with pytest.raises(ninelives.WorkerStartError) as caught:
        pool_of(Fragile(fault, When(phase, generations=None)), start_method="spawn", start_attempts=1).close()
    assert caught.value.fault.phase == phase
    assert fault in caught.value.fault.stderr_tail + caught.value.fault.traceback


def test_crash_in_the_first_reset_of_a_spawned_worker_is_tried_again(undisturbed):
    with pool_of(Fragile("abort", When("reset", slots=(GUILTY,))), start_method="spawn") as pool:
        seen = film(pool)
        assert [(fault.phase, fault.signal) for fault in of_kind(pool, FaultSeen)] == [("reset", "SIGABRT")]
    assert seen.batches[0].valid.all()
    assert seen.equals(undisturbed, OTHERS)


def test_spawned_worker_that_hangs_in_close_cannot_keep_the_pool_open():
    pool = pool_of(Fragile("hang_native", When("close")), start_method="spawn", close_timeout_s=1.0)
    pool.close()
