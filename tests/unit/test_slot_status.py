"""What the next row of a slot is when something is wrong with it."""

import numpy as np
import pytest

from ninelives.pool.recovery.slot_status import RowKind, SlotLife, SlotStatus
from ninelives.spec.phase import Op

BOTH = np.array([0, 1])


@pytest.fixture
def status():
    return SlotStatus(2)


def hand_out(status, slots=BOTH, up=True):
    """What the learner gets to know: the masks, and which rows are fault rows."""
    masked, faulty = status.masked(slots).tolist(), status.faulty(slots).tolist()
    status.handed_out(slots, [up] * len(slots))
    return masked, faulty


def test_healthy_slots_are_stepped_and_their_rows_are_true(status):
    assert not status.troubled
    assert status.ask([0, 1]) == [Op.STEP, Op.STEP]
    assert hand_out(status) == ([False, False], [])
    assert not status.troubled


def test_a_worker_that_dies_under_a_step_gives_a_fault_row_then_a_fresh_row_then_true_rows(status):
    status.ask([0, 1])
    assert status.worker_died([0, 1], [Op.STEP, Op.STEP], []), "the open request is answered now"
    assert status.troubled
    assert hand_out(status) == ([True, True], [0, 1])
    assert status.ask([0, 1]) == [Op.RESET, Op.RESET]
    assert hand_out(status) == ([True, True], [])
    assert not status.troubled
    assert status.ask([0, 1]) == [Op.STEP, Op.STEP]
    assert hand_out(status) == ([False, False], [])


def test_an_answer_given_before_the_death_is_still_true_and_the_fault_row_follows(status):
    status.ask([0, 1])
    assert not status.worker_died([], [], [0, 1])
    assert hand_out(status) == ([False, False], [])
    assert status.ask([0, 1]) == [Op.NONE, Op.NONE], "the parent answers by itself"
    assert hand_out(status) == ([True, True], [0, 1])
    assert status.ask([0, 1]) == [Op.RESET, Op.RESET]


def test_a_request_for_resets_only_waits_for_the_next_generation(status):
    status.ask([0, 1])
    status.worker_died([0, 1], [Op.STEP, Op.STEP], [])
    hand_out(status)
    ops = status.ask([0, 1])
    assert not status.worker_died([0, 1], ops, [])
    assert hand_out(status) == ([True, True], [])
    assert status.ask([0, 1]) == [Op.STEP, Op.STEP]


def test_a_fresh_answer_of_a_worker_that_died_since_starts_no_episode(status):
    status.ask([0, 1])
    status.worker_died([0, 1], [Op.STEP, Op.STEP], [])
    hand_out(status)
    status.ask([0, 1])
    status.worker_died([], [], [0, 1])  # it had answered; its successor is up before the row is handed out
    assert hand_out(status, up=True) == ([True, True], [])
    assert status.ask([0, 1]) == [Op.NONE, Op.NONE]
    assert hand_out(status) == ([True, True], [0, 1])


def test_a_fresh_row_of_a_worker_that_is_down_is_followed_by_a_fault_row(status):
    status.ask([0, 1])
    status.worker_died([0, 1], [Op.STEP, Op.STEP], [])
    hand_out(status)
    status.ask([0, 1])
    hand_out(status, up=False)
    assert status.ask([0, 1]) == [Op.NONE, Op.NONE]
    assert hand_out(status) == ([True, True], [0, 1])


def test_an_environment_that_breaks_costs_its_own_slot_only(status):
    status.ask([0, 1])
    status.slot_broke(0)
    assert hand_out(status) == ([True, False], [0])
    assert status.ask([0, 1]) == [Op.RESET, Op.STEP]
    assert hand_out(status) == ([True, False], [])


def test_an_environment_that_breaks_in_its_fresh_reset_makes_the_learner_wait(status):
    status.ask([0, 1])
    status.slot_broke(0)
    hand_out(status)
    status.ask([0, 1])
    status.slot_broke(0)
    assert hand_out(status) == ([True, False], []), "one episode has one fault row"
    assert status.ask([0, 1]) == [Op.RESET, Op.STEP]


def test_a_fresh_slot_waits_while_its_neighbour_still_owes_a_fault_row(status):
    status.ask([0, 1])
    status.slot_broke(0)
    hand_out(status)
    status.worker_died([], [], [0, 1])
    assert [SlotLife(life) for life in status.life] == [SlotLife.FRESH, SlotLife.LOST]
    assert status.ask([0, 1]) == [Op.NONE, Op.NONE]
    assert hand_out(status) == ([True, True], [1])
    assert status.ask([0, 1]) == [Op.RESET, Op.RESET]


def test_a_batch_that_cannot_wait_longer_has_waiting_rows_until_the_fresh_one(status):
    status.ask([0, 1])
    status.worker_died([0, 1], [Op.STEP, Op.STEP], [])
    hand_out(status)
    for _ in range(3):
        assert status.ask([0, 1]) == [Op.RESET, Op.RESET]
        status.wait_longer([0, 1])
        assert hand_out(status) == ([True, True], [])
    status.ask([0, 1])
    assert hand_out(status) == ([True, True], [])
    assert not status.troubled


@pytest.mark.parametrize("op", [Op.RESET, Op.CALL])
def test_a_neighbour_that_was_not_asked_loses_its_episode_with_the_worker(status, op):
    if op is Op.RESET:
        status.renew([1], valid=True)
        status.ask([1])
    status.worker_died([0, 1], [Op.NONE, op], [])
    assert status.life[0] == SlotLife.LOST


def test_the_first_row_after_an_asked_reset_is_true(status):
    status.renew([0, 1], valid=True)
    assert status.ask([0, 1]) == [Op.RESET, Op.RESET]
    assert hand_out(status) == ([False, False], [])
    assert status.ask([0, 1]) == [Op.STEP, Op.STEP]


def test_a_reset_after_a_fault_owes_nothing_more(status):
    status.worker_died([], [], [0, 1])
    status.renew([0, 1], valid=True)
    assert status.ask([0, 1]) == [Op.RESET, Op.RESET]
    assert hand_out(status) == ([False, False], [])


def test_a_renewed_slot_whose_worker_died_after_answering_begins_with_a_masked_row(status):
    status.renew([0, 1], valid=True)
    status.ask([0, 1])
    status.worker_died([], [], [0, 1])
    assert hand_out(status) == ([False, False], [])
    status.ask([0, 1])
    assert hand_out(status) == ([True, True], [0, 1])
    status.ask([0, 1])
    assert hand_out(status) == ([True, True], [])


@pytest.mark.parametrize("trouble", ["wait", "break", "neighbour dies"])
def test_a_renewed_slot_that_met_trouble_begins_with_a_masked_row(status, trouble):
    status.renew([0], valid=True)
    ops = status.ask([0, 1])
    assert ops == [Op.RESET, Op.STEP]
    if trouble == "wait":
        status.wait_longer([0])
    elif trouble == "break":
        status.slot_broke(0)
    else:
        status.worker_died([0, 1], ops, [])
    assert hand_out(status)[0][0]
    status.ask([0, 1])
    assert status.row[0] == RowKind.FRESH
    assert hand_out(status)[0][0], "what follows a masked row is no true transition"


def test_a_quarantined_slot_is_never_asked_again_and_always_masked(status):
    status.ask([0, 1])
    status.slot_broke(0)
    status.quarantine(0, unanswered=False)
    assert hand_out(status) == ([True, False], [0])
    status.renew([0, 1], valid=True)
    for _ in range(3):
        assert status.ask([0, 1])[0] is Op.NONE
        assert hand_out(status)[0][0]
        assert status.troubled
    status.worker_died([0, 1], [Op.NONE, Op.STEP], [])
    assert status.life[0] == SlotLife.OUT


def test_the_episode_of_a_slot_that_is_quarantined_while_idle_still_ends_with_a_fault_row(status):
    status.worker_died([], [], [0, 1])
    status.quarantine(0, unanswered=False)
    status.ask([0, 1])
    assert hand_out(status) == ([True, True], [0, 1])


@pytest.mark.parametrize("valid", [True, False])
def test_a_slot_that_is_quarantined_before_its_reset_was_answered_shows_no_row_of_an_environment(status, valid):
    status.renew([0], valid=valid)
    status.ask([0, 1])
    status.quarantine(0, unanswered=True)
    assert hand_out(status) == ([True, False], [])


def test_a_broken_answer_of_a_slot_that_was_quarantined_since_is_a_fault_row(status):
    status.ask([0, 1])
    status.worker_died([], [], [0, 1])
    status.quarantine(0, unanswered=False)
    status.never_true(0)
    assert hand_out(status) == ([True, False], [0])


def test_slots_that_are_back_after_a_fault_are_told_and_renewed_ones_are_not(status):
    status.ask([0, 1])
    status.slot_broke(0)
    status.handed_out(BOTH, [True, True])
    status.renew([1], valid=True)
    status.ask([0, 1])
    assert status.handed_out(BOTH, [True, True]) == [0]


def test_only_rows_for_which_no_environment_has_spoken_are_silent(status):
    status.ask([0, 1])
    status.slot_broke(0)
    assert status.silent(BOTH).tolist() == [True, False]
    hand_out(status)
    status.ask([0, 1])
    assert status.silent(BOTH).tolist() == [False, False], "a fresh row is masked and has its reset's info"
    status.wait_longer([0])
    assert status.silent(BOTH).tolist() == [True, False]


def test_a_verdict_does_not_outlive_the_row_it_was_about(status):
    status.ask([0, 1])
    status.slot_broke(0)
    hand_out(status)
    status.ask([0, 1])
    hand_out(status)
    # All is well again, so the pool steps without asking; then the neighbour breaks.
    status.slot_broke(1)
    assert hand_out(status) == ([False, True], [1])
