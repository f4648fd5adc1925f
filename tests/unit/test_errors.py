import pickle

import pytest

import ninelives
from ninelives import errors
from ninelives.errors import Fault, PoolExhaustedError, error_for

FAULT = Fault(
    kind="hung",
    summary="hung in step for 31.0 s (limit 30 s)",
    slots=(4, 5, 6, 9),
    worker=2,
    generation=3,
    phase="step",
    culprit=5,
    pid=4711,
    signal="SIGKILL",
    seed=77,
    last_action=[0.5, 1.0],
    stderr_tail="loading\nstuck here",
    traceback="Traceback: line 1\nline 2",
    log_path="runs/worker-2.log",
    advice="raise step_timeout_s",
    tried="3 starts",
)


def test_a_report_says_what_happened_to_whom_what_was_tried_and_what_to_do_next():
    text = FAULT.describe()
    for fact in (
        "slot 5 (worker 2, generation 3, pid 4711)",
        "hung in step for 31.0 s",
        "phase: step",
        "episodes lost in slots 4-6, 9",
        "seed: 77",
        "last action: [0.5, 1.0]",
        "tried: 3 starts",
        "next: raise step_timeout_s",
        "log: runs/worker-2.log",
        "line 2",
        "stuck here",
    ):
        assert fact in text


def test_a_report_says_nothing_about_what_is_not_known():
    text = Fault("crashed", "killed by SIGSEGV", (0, 1), 0, 1, "idle").describe()
    assert text.startswith("slots 0-1 (worker 0")
    for word in ("seed", "last action", "tried", "next:", "log:", "traceback", "output", "episodes lost"):
        assert word not in text


@pytest.mark.parametrize("value", [0, 0.0, [0]])
def test_a_seed_or_action_of_zero_is_a_fact_too(value):
    text = Fault("raised", "raised", (0,), 0, 1, "step", culprit=0, seed=0, last_action=value).describe()
    assert "seed: 0" in text
    assert f"last action: {value}" in text


@pytest.mark.parametrize(
    ("slots", "words"), [((3,), "slots 3 "), ((2, 1, 0), "slots 0-2 "), ((0, 2, 4, 5), "slots 0, 2, 4-5 ")]
)
def test_slots_are_written_as_ranges(slots, words):
    assert words in Fault("crashed", "gone", slots, 0, 1, "idle").describe()


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("start", ninelives.WorkerStartError),
        ("crashed", ninelives.WorkerCrashedError),
        ("hung", ninelives.WorkerHungError),
        ("raised", ninelives.EnvRaisedError),
        ("bad_data", ninelives.BadDataError),
    ],
)
def test_each_kind_of_fault_has_its_own_error_that_carries_all_facts(kind, error):
    fault = Fault(kind, "it broke", (0,), 0, 1, "step", culprit=0)
    raised = error_for(fault)
    assert type(raised) is error
    assert isinstance(raised, ninelives.WorkerError)
    assert raised.fault is fault
    assert str(raised) == fault.describe()


def test_errors_survive_pickling_with_their_facts():
    raised = pickle.loads(pickle.dumps(error_for(FAULT)))
    assert type(raised) is ninelives.WorkerHungError
    assert raised.fault == FAULT
    assert str(raised) == FAULT.describe()


def test_exhaustion_lists_the_last_fault_of_each_slot_and_survives_pickling():
    exhausted = PoolExhaustedError("more than 3 faults in 60 s", {7: FAULT, 2: FAULT})
    lines = str(exhausted).splitlines()
    assert lines[0] == "more than 3 faults in 60 s"
    assert [line.strip().split(":")[0] for line in lines[1:]] == ["slot 2", "slot 7"]
    assert all("hung in step" in line for line in lines[1:])
    again = pickle.loads(pickle.dumps(exhausted))
    assert (again.reason, again.faults, str(again)) == (exhausted.reason, exhausted.faults, str(exhausted))


def every_error(base=errors.NinelivesError):
    for error in base.__subclasses__():
        yield error
        yield from every_error(error)


def test_every_error_can_be_caught_as_one_and_stands_in_the_drawn_tree():
    for error in every_error():
        assert issubclass(error, ninelives.NinelivesError)
        if error.__module__ == errors.__name__:
            assert f"  {error.__name__} " in errors.__doc__


def test_what_you_did_and_what_broke_are_different_errors():
    assert issubclass(ninelives.ClosedError, ninelives.UsageError)
    assert not issubclass(ninelives.ClosedError, ninelives.WorkerError)
    assert not issubclass(ninelives.WorkerError, ninelives.UsageError)
    assert issubclass(ninelives.ConfigError, ValueError)
    assert issubclass(ninelives.UsageError, RuntimeError)
