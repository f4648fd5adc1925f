"""First-ready batches in two native calls; whatever is not common is left to ``send`` and ``recv``."""

import time

import numpy as np
import pytest
from exchange_twins import LONG

from ninelives.transport.control import GROUP_SENT

NEVER = 2**62
SLOTS = np.array([4, 5, 0, 1])
GROUPS = [2, 0]
ACTIONS = np.arange(8, dtype=np.float32).reshape(4, 2) + 1
"""For eight slots, two in each of four groups."""


@pytest.fixture
def rows():
    return np.zeros((8, 2), np.float32)


def asked(exchange):
    return exchange.control.group[:, GROUP_SENT].tolist()


def test_actions_go_to_their_slots_notes_are_taken_first_and_only_these_groups_are_asked(exchange, rows, sent_ns):
    noted = []
    before = time.monotonic_ns()
    assert exchange.caller.send_some(
        ACTIONS, rows, SLOTS, GROUPS, lambda slots: noted.append((slots.tolist(), asked(exchange))), sent_ns
    )
    assert noted == [([4, 5, 0, 1], [0, 0, 0, 0])]
    assert asked(exchange) == [1, 0, 1, 0]
    np.testing.assert_array_equal(rows[SLOTS], ACTIONS)
    assert not rows[[2, 3, 6, 7]].any()
    assert (sent_ns[GROUPS] >= before).all()
    assert not sent_ns[[1, 3]].any()


ODD = {
    "a list": ACTIONS.tolist(),
    "another type": ACTIONS.astype(np.float64),
    "too few": ACTIONS[:3],
    "another width": ACTIONS[:, :1].copy(),
    "another number of dimensions": ACTIONS.reshape(-1),
    "not in one piece": np.zeros((4, 4), np.float32)[:, ::2],
    "other byte order": ACTIONS.astype(">f4"),
    "a subclass": ACTIONS.view(np.matrix),
}


@pytest.mark.parametrize("case", ODD)
@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_actions_that_are_not_plainly_rows_are_left_to_send_and_nothing_is_asked(exchange, rows, sent_ns, case):
    assert not exchange.caller.send_some(ODD[case], rows, SLOTS, GROUPS, None, sent_ns)
    assert asked(exchange) == [0, 0, 0, 0]
    assert not rows.any()


def test_a_slot_beyond_the_rows_is_left_to_send(exchange, rows, sent_ns):
    assert not exchange.caller.send_some(ACTIONS, rows, np.array([4, 5, 0, 8]), GROUPS, None, sent_ns)
    assert not exchange.caller.send_some(ACTIONS, rows, np.array([4, 5, 0, -1]), GROUPS, None, sent_ns)
    assert asked(exchange) == [0, 0, 0, 0]
    assert not rows.any()


def test_a_group_that_has_not_answered_is_left_to_send(exchange, rows, sent_ns):
    exchange.caller.post([0])
    assert not exchange.caller.send_some(ACTIONS, rows, SLOTS, GROUPS, None, sent_ns)
    assert asked(exchange) == [1, 0, 0, 0]
    assert not rows.any()


def test_a_note_that_cannot_be_taken_stops_everything(exchange, rows, sent_ns):
    def refuse(slots):
        raise ValueError("full")

    with pytest.raises(ValueError, match="full"):
        exchange.caller.send_some(ACTIONS, rows, SLOTS, GROUPS, refuse, sent_ns)
    assert asked(exchange) == [0, 0, 0, 0]


def test_the_first_ready_groups_are_handed_out_with_their_attention(exchange):
    exchange.caller.post([0, 1, 2, 3])
    exchange.answer(1, 4)
    assert exchange.caller.recv_some(2, 0, LONG, NEVER) == ([2, 3], 4)
    assert exchange.caller.inflight_count == 2


def test_groups_are_looked_for_from_where_the_last_batch_ended(exchange):
    exchange.caller.post([0, 1, 2, 3])
    exchange.answer(0)
    exchange.answer(1)
    assert exchange.caller.recv_some(2, 3, LONG, NEVER) == ([3, 0], 0)


def test_what_is_not_ready_in_time_stays_under_way(exchange):
    exchange.caller.post([0, 1, 2, 3])
    exchange.answer(0)
    assert exchange.caller.recv_some(3, 0, 1_000_000, NEVER) is None
    assert exchange.caller.inflight_count == 4


def test_when_it_is_time_to_look_after_the_workers_nothing_is_handed_out(exchange):
    exchange.caller.post([0, 1])
    exchange.answer(0)
    assert exchange.caller.recv_some(2, 0, LONG, 0) is None
    assert exchange.caller.inflight_count == 2
