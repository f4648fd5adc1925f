"""When a first-ready batch waits for a slot that was left out."""

import numpy as np

from ninelives.pool.data.turns import LEEWAY, LEFT_OUT_ROUNDS, WAKE_ROUNDS, Turns

SLOTS, BATCH = 8, 2
ROUND = SLOTS // BATCH


def play(turns, batches, without=()):
    """Batches in which all slots but some take turns; what each look found, by number of the batch."""
    others, found = [slot for slot in range(SLOTS) if slot not in without], {}
    for number in range(batches):
        if turns.is_due:
            found[number] = turns.left_out()
        turns.note(np.array([others[(BATCH * number + k) % len(others)] for k in range(BATCH)]))
    return found


def test_slots_that_take_turns_are_never_waited_for():
    assert set(map(str, play(Turns(SLOTS, BATCH), 1000).values())) == {"([], [])"}


def test_it_looks_once_a_round():
    assert list(play(Turns(SLOTS, BATCH), 5 * ROUND)) == [0, ROUND, 2 * ROUND, 3 * ROUND, 4 * ROUND]


def test_a_slot_that_is_left_out_has_its_worker_waited_for_once_and_is_waited_for_later_at_any_rate():
    found = play(Turns(SLOTS, BATCH), LEFT_OUT_ROUNDS * ROUND, without=[3])
    ages = [number for number, (_, late) in found.items() if late == [3]]
    at_any_rate = [number for number, (slots, _) in found.items() if slots == [3]]
    assert ages == [WAKE_ROUNDS * ROUND]
    assert at_any_rate[0] == (LEFT_OUT_ROUNDS - LEEWAY) * ROUND


def test_a_slot_that_came_is_late_anew():
    turns = Turns(SLOTS, BATCH)
    play(turns, 10 * ROUND, without=[3])
    turns.note(np.array([3]))
    found = play(turns, 10 * ROUND, without=[3])
    assert [late for _, late in found.values()].count([3]) == 1


def test_a_round_is_counted_whole_when_batches_do_not_divide_the_slots():
    assert Turns(10, 4).round == 3
