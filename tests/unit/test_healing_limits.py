"""When a slot is healed once more, and when its episode is cut."""

import pytest

from ninelives.errors import Fault
from ninelives.pool.recovery.healing import OUTSIDE_LIMIT, REPLAY_LIMIT, NextTry, SlotFaults, faults_at
from ninelives.spec.restore import Outcome

PLACE = (4, 17)


def fault(culprit=1, phase="step", signal="SIGSEGV", kind="crashed"):
    return Fault(kind, "x", (0, 1), 0, 1, phase, culprit=culprit, signal=signal)


def after(faults, places=None):
    known = None
    for number, one in enumerate(faults):
        known = faults_at(places[number] if places else PLACE, known, 100 + number)
        known.add(1, one)
    return known


def test_the_first_fault_is_healed():
    assert after([fault()]).why_not == ""


@pytest.mark.parametrize("phase", ["step", "reset"])
@pytest.mark.parametrize("signal", ["SIGSEGV", "SIGABRT", None])
def test_an_action_that_breaks_the_environment_twice_is_poison(phase, signal):
    assert after([fault(), fault(phase=phase, signal=signal)]).why_not == "poison"


@pytest.mark.parametrize("signal", ["SIGSEGV", "SIGABRT", None])
def test_steps_that_break_in_a_replay_are_no_poison_and_are_replayed_a_few_times(signal):
    in_replay = fault(phase="restore", signal=signal)
    assert after([fault(), *[in_replay] * (REPLAY_LIMIT - 1)]).why_not == ""
    assert after([fault(), *[in_replay] * REPLAY_LIMIT]).why_not == "failed"
    assert after([fault(), in_replay, fault()]).why_not == "poison"


def test_the_other_slots_of_the_worker_outlast_one_whose_replays_break():
    assert after([fault(culprit=0), *[fault(culprit=0, phase="restore")] * REPLAY_LIMIT]).why_not == ""


def tries(steps, outcome=Outcome.FAILED, has_older=False):
    faults = SlotFaults(PLACE, 0)
    return [faults.next_try(outcome, step, has_older) for step in steps]


def test_a_replay_that_raises_is_repeated_a_few_times():
    assert tries([3] * REPLAY_LIMIT) == [NextTry.AGAIN] * (REPLAY_LIMIT - 1) + [NextTry.NOTHING]


def test_raising_and_crashing_in_replays_have_one_limit():
    known = after([fault(), *[fault(phase="restore")] * (REPLAY_LIMIT - 1)])
    assert known.next_try(Outcome.FAILED, 3, has_older=False) is NextTry.NOTHING


def test_a_replay_that_raises_twice_at_one_step_begins_earlier():
    assert tries([3, 3], has_older=True) == [NextTry.AGAIN, NextTry.OLDER]
    assert tries([3, 5, 3], has_older=True) == [NextTry.AGAIN] * 3


@pytest.mark.parametrize(("has_older", "then"), [(True, NextTry.OLDER), (False, NextTry.NOTHING)])
def test_a_replay_that_differs_is_not_repeated(has_older, then):
    assert tries([3], Outcome.DIFFERS, has_older) == [then]


@pytest.mark.parametrize("outcome", [Outcome.LATE, Outcome.USED_DIFFERS])
@pytest.mark.parametrize("has_older", [True, False])
def test_a_replay_that_took_too_long_or_cannot_be_exact_is_not_repeated(has_older, outcome):
    assert tries([3], outcome, has_older) == [NextTry.NOTHING]


def test_breaking_at_another_step_is_another_case():
    assert after([fault(), fault()], [(4, 17), (4, 18)]).why_not == ""


def test_neighbours_of_a_poisoned_slot_are_healed_again():
    assert after([fault(culprit=0)] * 2).why_not == ""


@pytest.mark.parametrize("phase", ["step", "reset", "restore"])
@pytest.mark.parametrize("killed", [{"signal": "SIGKILL"}, {"culprit": None}, {"culprit": 0}])
def test_kills_from_outside_are_forgiven_for_longer_but_not_for_ever(killed, phase):
    assert after([fault(phase=phase, **killed)] * (OUTSIDE_LIMIT - 1)).why_not == ""
    assert after([fault(phase=phase, **killed)] * OUTSIDE_LIMIT).why_not == "gave_up"


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGSEGV"])
@pytest.mark.parametrize("phase", ["import", "construct", "idle"])
def test_a_worker_that_dies_before_it_plays_says_nothing_about_the_episode(phase, signal):
    assert after([fault(), *[fault(phase=phase, signal=signal)] * 50]).why_not == ""


def test_a_recycling_is_no_fault():
    assert after([None] * 50).why_not == ""


def test_recovery_is_counted_from_the_first_fault_at_that_place():
    assert after([fault(), fault(signal="SIGKILL")]).since_ns == 100
