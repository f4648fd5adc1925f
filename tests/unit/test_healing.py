"""When a slot is healed once more, and when its episode is cut."""

import pytest

from ninelives.errors import Fault
from ninelives.pool.recovery.wounds import OUTSIDE_LIMIT, Wounds, verdict

PLACE = (4, 17)


def fault(culprit=1, phase="step", signal="SIGSEGV", kind="crashed"):
    return Fault(kind, "x", (0, 1), 0, 1, phase, culprit=culprit, signal=signal)


def suffered(faults, places=None):
    wounds = Wounds()
    for number, one in enumerate(faults):
        wound = wounds.suffer(1, places[number] if places else PLACE, one, 100 + number)
    return wound


def test_the_first_fault_is_healed():
    assert verdict(suffered([fault()])) == ""


@pytest.mark.parametrize("phase", ["step", "reset", "restore"])
@pytest.mark.parametrize("signal", ["SIGSEGV", "SIGABRT", None])
def test_an_action_that_breaks_the_environment_twice_is_poison(phase, signal):
    assert verdict(suffered([fault(), fault(phase=phase, signal=signal)])) == "poison"


def test_breaking_at_another_step_is_another_wound():
    assert verdict(suffered([fault(), fault()], [(4, 17), (4, 18)])) == ""


def test_neighbours_of_a_poisoned_slot_are_healed_again():
    assert verdict(suffered([fault(culprit=0)] * 2)) == ""


@pytest.mark.parametrize("phase", ["step", "reset", "restore"])
@pytest.mark.parametrize("killed", [{"signal": "SIGKILL"}, {"culprit": None}, {"culprit": 0}])
def test_kills_from_outside_are_forgiven_for_longer_but_not_for_ever(killed, phase):
    assert verdict(suffered([fault(phase=phase, **killed)] * (OUTSIDE_LIMIT - 1))) == ""
    assert verdict(suffered([fault(phase=phase, **killed)] * OUTSIDE_LIMIT)) == "gave_up"


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGSEGV"])
@pytest.mark.parametrize("phase", ["import", "construct", "idle"])
def test_a_worker_that_dies_before_it_plays_says_nothing_about_the_episode(phase, signal):
    assert verdict(suffered([fault(), *[fault(phase=phase, signal=signal)] * 50])) == ""


def test_a_recycling_is_no_fault():
    assert verdict(suffered([None] * 50)) == ""


def test_recovery_is_counted_from_the_first_fault_at_that_place():
    assert suffered([fault(), fault(signal="SIGKILL")]).since_ns == 100
