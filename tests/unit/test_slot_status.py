"""What the next row of a slot is when something is wrong with it."""

import numpy as np
import pytest

from ninelives.pool.recovery.slot_status import Desk, Life, Verdict
from ninelives.spec.phase import Op

BOTH = np.array([0, 1])


@pytest.fixture
def desk():
    return Desk(2)


def hand_out(desk, slots=BOTH, up=True):
    """What the learner gets to know: the masks, and which rows are fault rows."""
    masked, faulty = desk.masked(slots).tolist(), desk.faulty(slots).tolist()
    desk.handed_out(slots, [up] * len(slots))
    return masked, faulty


def test_healthy_slots_are_stepped_and_their_rows_are_true(desk):
    assert not desk.troubled
    assert desk.ask([0, 1]) == [Op.STEP, Op.STEP]
    assert hand_out(desk) == ([False, False], [])
    assert not desk.troubled


def test_a_worker_that_dies_under_a_step_gives_a_fault_row_then_a_fresh_row_then_true_rows(desk):
    desk.ask([0, 1])
    assert desk.worker_died([0, 1], [Op.STEP, Op.STEP], []), "the open request is answered now"
    assert desk.troubled
    assert hand_out(desk) == ([True, True], [0, 1])
    assert desk.ask([0, 1]) == [Op.RESET, Op.RESET]
    assert hand_out(desk) == ([True, True], [])
    assert not desk.troubled
    assert desk.ask([0, 1]) == [Op.STEP, Op.STEP]
    assert hand_out(desk) == ([False, False], [])


def test_an_answer_given_before_the_death_is_still_true_and_the_fault_row_follows(desk):
    desk.ask([0, 1])
    assert not desk.worker_died([], [], [0, 1])
    assert hand_out(desk) == ([False, False], [])
    assert desk.ask([0, 1]) == [Op.NONE, Op.NONE], "the parent answers by itself"
    assert hand_out(desk) == ([True, True], [0, 1])
    assert desk.ask([0, 1]) == [Op.RESET, Op.RESET]


def test_a_request_for_resets_only_waits_for_the_next_generation(desk):
    desk.ask([0, 1])
    desk.worker_died([0, 1], [Op.STEP, Op.STEP], [])
    hand_out(desk)
    ops = desk.ask([0, 1])
    assert not desk.worker_died([0, 1], ops, [])
    assert hand_out(desk) == ([True, True], [])
    assert desk.ask([0, 1]) == [Op.STEP, Op.STEP]


def test_a_fresh_answer_of_a_worker_that_died_since_starts_no_episode(desk):
    desk.ask([0, 1])
    desk.worker_died([0, 1], [Op.STEP, Op.STEP], [])
    hand_out(desk)
    desk.ask([0, 1])
    desk.worker_died([], [], [0, 1])  # it had answered; its successor is up before the row is handed out
    assert hand_out(desk, up=True) == ([True, True], [])
    assert desk.ask([0, 1]) == [Op.NONE, Op.NONE]
    assert hand_out(desk) == ([True, True], [0, 1])


def test_a_fresh_row_of_a_worker_that_is_down_is_followed_by_a_fault_row(desk):
    desk.ask([0, 1])
    desk.worker_died([0, 1], [Op.STEP, Op.STEP], [])
    hand_out(desk)
    desk.ask([0, 1])
    hand_out(desk, up=False)
    assert desk.ask([0, 1]) == [Op.NONE, Op.NONE]
    assert hand_out(desk) == ([True, True], [0, 1])


def test_an_environment_that_breaks_costs_its_own_slot_only(desk):
    desk.ask([0, 1])
    desk.slot_broke(0)
    assert hand_out(desk) == ([True, False], [0])
    assert desk.ask([0, 1]) == [Op.RESET, Op.STEP]
    assert hand_out(desk) == ([True, False], [])


def test_an_environment_that_breaks_in_its_fresh_reset_makes_the_learner_wait(desk):
    desk.ask([0, 1])
    desk.slot_broke(0)
    hand_out(desk)
    desk.ask([0, 1])
    desk.slot_broke(0)
    assert hand_out(desk) == ([True, False], []), "one episode has one fault row"
    assert desk.ask([0, 1]) == [Op.RESET, Op.STEP]


def test_a_fresh_slot_waits_while_its_neighbour_still_owes_a_fault_row(desk):
    desk.ask([0, 1])
    desk.slot_broke(0)
    hand_out(desk)
    desk.worker_died([], [], [0, 1])
    assert [Life(life) for life in desk.life] == [Life.FRESH, Life.LOST]
    assert desk.ask([0, 1]) == [Op.NONE, Op.NONE]
    assert hand_out(desk) == ([True, True], [1])
    assert desk.ask([0, 1]) == [Op.RESET, Op.RESET]


def test_a_batch_that_cannot_wait_longer_has_waiting_rows_until_the_fresh_one(desk):
    desk.ask([0, 1])
    desk.worker_died([0, 1], [Op.STEP, Op.STEP], [])
    hand_out(desk)
    for _ in range(3):
        assert desk.ask([0, 1]) == [Op.RESET, Op.RESET]
        desk.wait_longer([0, 1])
        assert hand_out(desk) == ([True, True], [])
    desk.ask([0, 1])
    assert hand_out(desk) == ([True, True], [])
    assert not desk.troubled


@pytest.mark.parametrize("op", [Op.RESET, Op.CALL])
def test_a_neighbour_that_was_not_asked_loses_its_episode_with_the_worker(desk, op):
    if op is Op.RESET:
        desk.renew([1], valid=True)
        desk.ask([1])
    desk.worker_died([0, 1], [Op.NONE, op], [])
    assert desk.life[0] == Life.LOST


def test_the_first_row_after_an_asked_reset_is_true(desk):
    desk.renew([0, 1], valid=True)
    assert desk.ask([0, 1]) == [Op.RESET, Op.RESET]
    assert hand_out(desk) == ([False, False], [])
    assert desk.ask([0, 1]) == [Op.STEP, Op.STEP]


def test_a_reset_after_a_fault_owes_nothing_more(desk):
    desk.worker_died([], [], [0, 1])
    desk.renew([0, 1], valid=True)
    assert desk.ask([0, 1]) == [Op.RESET, Op.RESET]
    assert hand_out(desk) == ([False, False], [])


def test_a_renewed_slot_whose_worker_died_after_answering_begins_with_a_masked_row(desk):
    desk.renew([0, 1], valid=True)
    desk.ask([0, 1])
    desk.worker_died([], [], [0, 1])
    assert hand_out(desk) == ([False, False], [])
    desk.ask([0, 1])
    assert hand_out(desk) == ([True, True], [0, 1])
    desk.ask([0, 1])
    assert hand_out(desk) == ([True, True], [])


@pytest.mark.parametrize("trouble", ["wait", "break", "neighbour dies"])
def test_a_renewed_slot_that_met_trouble_begins_with_a_masked_row(desk, trouble):
    desk.renew([0], valid=True)
    ops = desk.ask([0, 1])
    assert ops == [Op.RESET, Op.STEP]
    if trouble == "wait":
        desk.wait_longer([0])
    elif trouble == "break":
        desk.slot_broke(0)
    else:
        desk.worker_died([0, 1], ops, [])
    assert hand_out(desk)[0][0]
    desk.ask([0, 1])
    assert desk.verdict[0] == Verdict.FRESH
    assert hand_out(desk)[0][0], "what follows a masked row is no true transition"


def test_a_quarantined_slot_is_never_asked_again_and_always_masked(desk):
    desk.ask([0, 1])
    desk.slot_broke(0)
    desk.quarantine(0, unanswered=False)
    assert hand_out(desk) == ([True, False], [0])
    desk.renew([0, 1], valid=True)
    for _ in range(3):
        assert desk.ask([0, 1])[0] is Op.NONE
        assert hand_out(desk)[0][0]
        assert desk.troubled
    desk.worker_died([0, 1], [Op.NONE, Op.STEP], [])
    assert desk.life[0] == Life.OUT


def test_the_episode_of_a_slot_that_is_quarantined_while_idle_still_ends_with_a_fault_row(desk):
    desk.worker_died([], [], [0, 1])
    desk.quarantine(0, unanswered=False)
    desk.ask([0, 1])
    assert hand_out(desk) == ([True, True], [0, 1])


@pytest.mark.parametrize("valid", [True, False])
def test_a_slot_that_is_quarantined_before_its_reset_was_answered_shows_no_row_of_an_environment(desk, valid):
    desk.renew([0], valid=valid)
    desk.ask([0, 1])
    desk.quarantine(0, unanswered=True)
    assert hand_out(desk) == ([True, False], [])


def test_a_broken_answer_of_a_slot_that_was_quarantined_since_is_a_fault_row(desk):
    desk.ask([0, 1])
    desk.worker_died([], [], [0, 1])
    desk.quarantine(0, unanswered=False)
    desk.never_true(0)
    assert hand_out(desk) == ([True, False], [0])


def test_slots_that_are_back_after_a_fault_are_told_and_renewed_ones_are_not(desk):
    desk.ask([0, 1])
    desk.slot_broke(0)
    desk.handed_out(BOTH, [True, True])
    desk.renew([1], valid=True)
    desk.ask([0, 1])
    assert desk.handed_out(BOTH, [True, True]) == [0]


def test_only_rows_for_which_no_environment_has_spoken_are_silent(desk):
    desk.ask([0, 1])
    desk.slot_broke(0)
    assert desk.silent(BOTH).tolist() == [True, False]
    hand_out(desk)
    desk.ask([0, 1])
    assert desk.silent(BOTH).tolist() == [False, False], "a fresh row is masked and has its reset's info"
    desk.wait_longer([0])
    assert desk.silent(BOTH).tolist() == [True, False]


def test_a_verdict_does_not_outlive_the_row_it_was_about(desk):
    desk.ask([0, 1])
    desk.slot_broke(0)
    hand_out(desk)
    desk.ask([0, 1])
    hand_out(desk)
    # All is well again, so the pool steps without asking; then the neighbour breaks.
    desk.slot_broke(1)
    assert hand_out(desk) == ([False, True], [1])
