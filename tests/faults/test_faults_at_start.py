"""A fault before the first observation: a ``WorkerStartError`` with the worker's own traceback, or another try."""

from __future__ import annotations

import time

import pytest
from scenes import DEADLINE_S, EXITS, GUILTY, OTHERS, PROMPT_S, SIGNALS, crossed, deadlines, film, of_kind, pool_of

import ninelives
from ninelives.events import FaultSeen, PhaseEntered, RestartScheduled, WorkerSpawned
from ninelives.testing import Fragile, RecordingSink, When
from ninelives.testing.faults import ENDS, HANGS

START_S = {"fork": 0.5, "forkserver": 3.0}
"""Starting a keeper and two workers on a busy machine."""

ALWAYS = When("construct", slots=(GUILTY,), generations=None)
FIRST = When("construct", slots=(GUILTY,))


def in_both_phases(faults):
    """(phase, fault, start method): a start has two phases in which the environment's code runs."""
    return [(phase, *case) for phase in ("import", "construct") for case in crossed(phase, faults)]


def refused(env, **settings):
    """The error of a pool that cannot start, and how long it took."""
    began = time.monotonic()
    with pytest.raises(ninelives.WorkerStartError) as caught:
        pool_of(env, **settings).close()
    return caught.value, time.monotonic() - began


@pytest.mark.parametrize(("phase", "fault", "method"), in_both_phases([*ENDS, "raise_error"]))
def test_environment_that_cannot_start_is_reported_with_the_cause(phase, fault, method):
    error, took = refused(Fragile(fault, When(phase, generations=None)), start_method=method, start_attempts=1)
    assert took < START_S[method] + PROMPT_S
    seen = error.fault
    assert (seen.kind, seen.phase) == ("start", phase)
    if fault == "raise_error":
        assert "RuntimeError: the zoo raised this on purpose" in seen.traceback
        assert "raise_error" in seen.traceback
    else:
        assert (seen.signal, seen.exit_code) == (SIGNALS.get(fault), EXITS.get(fault))


@pytest.mark.parametrize(("phase", "fault", "method"), in_both_phases(HANGS))
def test_environment_that_hangs_at_its_start_is_killed_at_the_deadline_and_shows_where(phase, fault, method):
    env = Fragile(fault, When(phase, generations=None))
    error, took = refused(env, start_method=method, start_attempts=1, **deadlines(phase))
    assert DEADLINE_S < took < DEADLINE_S + START_S[method] + PROMPT_S
    assert (error.fault.kind, error.fault.phase) == ("start", phase)
    assert f"hung in {phase}" in str(error)
    if fault != "stop_self":
        assert f"in {fault}" in error.fault.stderr_tail


@pytest.mark.parametrize(
    ("fault", "method"), crossed("construct", ["segfault", "exit_zero", "hang_sleeping", "raise_error"])
)
def test_construction_that_fails_once_is_tried_again_and_no_other_worker_waits(fault, method, undisturbed):
    with pool_of(Fragile(fault, FIRST), start_method=method, start_attempts=2, **deadlines("construct")) as pool:
        seen = film(pool)
        faults = of_kind(pool, FaultSeen)
        spawned = of_kind(pool, WorkerSpawned)
    assert [(fault.kind, fault.phase, fault.during_start) for fault in faults] == [("start", "construct", True)]
    assert [event.generation for event in spawned if event.worker == 0] == [1, 2]
    assert [event.generation for event in spawned if event.worker == 1] == [1]
    assert seen.equals(undisturbed, (0, 1, *OTHERS))


def test_first_start_is_tried_start_attempts_times_and_no_more():
    sink = RecordingSink()
    error, _ = refused(Fragile("segfault", ALWAYS), start_method="fork", start_attempts=3, sinks=[sink])
    spawned = [event for event in sink.of(WorkerSpawned) if event.worker == 0]
    assert len(spawned) == 3
    assert "3 starts" in error.fault.tried


def test_failing_import_is_a_mistake_and_is_not_tried_again():
    sink = RecordingSink()
    refused(Fragile("raise_error", When("import")), start_method="fork", start_attempts=3, sinks=[sink])
    assert not sink.of(RestartScheduled)


def test_import_of_a_missing_module_is_reported_with_its_traceback():
    error, _ = refused("no_such_module_anywhere:Env", start_method="forkserver")
    assert error.fault.phase == "import"
    assert "ModuleNotFoundError" in error.fault.traceback
    assert "no_such_module_anywhere" in str(error)


def test_slow_start_is_only_slow():
    sink = RecordingSink()
    with pool_of(Fragile("nap", When("construct")), start_method="fork", sinks=[sink]) as pool:
        assert pool.reset(seed=1).valid.all()
    assert not sink.of(FaultSeen)
    assert {event.phase for event in sink.of(PhaseEntered)} >= {"construct"}


@pytest.mark.parametrize("fault", ["segfault", "raise_error", "hang_sleeping"])
def test_construction_that_fails_in_a_later_generation_is_tried_again(fault, undisturbed, tmp_path):
    """A worker dies, its successor cannot be built, the one after that can."""
    env = Broken(fault, str(tmp_path / "once"))
    settings = {"start_method": "fork", "start_attempts": 1, "restart_wait_s": 5.0, **deadlines("construct")}
    with pool_of(env, **settings) as pool:
        seen = film(pool)
        faults = of_kind(pool, FaultSeen)
        spawned = [event.generation for event in of_kind(pool, WorkerSpawned) if event.worker == 0]
    assert [fault.phase for fault in faults] == ["step", "construct"]
    assert spawned == [1, 2, 3]
    assert seen.batches[-1].valid.all()
    assert seen.equals(undisturbed, OTHERS)


class Broken:
    """Crashes in a step of generation 1, then breaks once in its construction."""

    def __init__(self, fault, marker):
        self.steps = Fragile("segfault", When("step", at=2, slots=(GUILTY,)))
        self.builds = Fragile(fault, When("construct", slots=(GUILTY,), generations=(2,), once=marker))

    def __call__(self):
        self.builds()
        return self.steps()
