"""The whole common step in one native call; whatever is not common is left to ``send`` and ``recv``."""

import time

import numpy as np
import pytest
from exchange_twins import LONG, Service

from ninelives.transport.control import GROUP_SENT
from ninelives.transport.exchange import WORKER_ROUNDS

ALREADY_SENT, NOT_SENT = -1, -2
NEVER = 2**62
ACTIONS = np.arange(8, dtype=np.float32).reshape(4, 2)


@pytest.fixture
def rows():
    return np.zeros((4, 2), np.float32)


def answering(exchange, worker):
    """Answers every request of a worker with an attention bit of its own."""
    answerer = exchange.answerer(worker, WORKER_ROUNDS)

    def run():
        while (group := answerer.next_group()) is not None:
            answerer.publish(group, 1 << worker)

    return Service(run, exchange.stop)


def completed(exchange):
    """The rest of a step that a wake-up cut short, as ``recv`` does it."""
    while exchange.caller.wait(4, LONG) < 4:
        pass
    return exchange.caller.collect_all()


def test_actions_are_written_everybody_is_asked_and_the_attention_of_all_comes_back(exchange, rows, sent_ns):
    with answering(exchange, 0), answering(exchange, 1):
        for number in range(50):
            before = time.monotonic_ns()
            attention = exchange.caller.exchange_all(ACTIONS + number, rows, None, sent_ns, LONG, NEVER)
            assert (attention if attention != ALREADY_SENT else completed(exchange)) == 1 | 2
            np.testing.assert_array_equal(rows, ACTIONS + number)
            assert (before <= sent_ns).all()
            assert exchange.caller.inflight_count == 0
    assert exchange.control.group[:, GROUP_SENT].tolist() == [50] * 4


ODD = {
    "a list": (ACTIONS.tolist(), ACTIONS),
    "another type": (ACTIONS.astype(np.float64), ACTIONS),
    "another shape": (ACTIONS[:3], ACTIONS),
    "another number of dimensions": (ACTIONS.reshape(-1), ACTIONS),
    "not in one piece": (np.zeros((4, 4), np.float32)[:, ::2], ACTIONS),
    "other byte order": (ACTIONS.astype(">f4"), ACTIONS),
    "other byte order of the rows": (ACTIONS, ACTIONS.astype(">f4")),
    "a subclass": (ACTIONS.view(np.matrix), ACTIONS),
}


@pytest.mark.parametrize("case", ODD)
@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_actions_that_are_not_plainly_rows_are_left_to_send_and_nothing_is_asked(exchange, sent_ns, case):
    actions, like = ODD[case]
    rows = np.zeros_like(like)
    assert exchange.caller.exchange_all(actions, rows, None, sent_ns, 1_000_000, NEVER) == NOT_SENT
    assert exchange.caller.inflight_count == 0
    assert not exchange.control.group[:, GROUP_SENT].any()
    assert not rows.any()


def test_nothing_is_asked_while_answers_are_under_way(exchange, rows, sent_ns):
    exchange.caller.post([2])
    assert exchange.caller.exchange_all(ACTIONS, rows, None, sent_ns, LONG, NEVER) == NOT_SENT
    assert exchange.control.group[:, GROUP_SENT].tolist() == [0, 0, 1, 0]
    assert not rows.any()


def test_what_is_not_answered_in_time_stays_under_way(exchange, rows, sent_ns):
    assert exchange.caller.exchange_all(ACTIONS, rows, None, sent_ns, 1_000_000, NEVER) == ALREADY_SENT
    assert exchange.caller.inflight_count == 4
    exchange.answer(0, 4)
    exchange.answer(1, 1)
    assert exchange.caller.wait(4, LONG) == 4
    assert exchange.caller.collect_all() == 5


def test_when_it_is_time_to_look_after_the_workers_the_answers_are_left_to_recv(exchange, rows, sent_ns):
    with answering(exchange, 0), answering(exchange, 1):
        assert exchange.caller.exchange_all(ACTIONS, rows, None, sent_ns, LONG, 0) == ALREADY_SENT
        assert exchange.caller.inflight_count == 4
        assert completed(exchange) == 1 | 2
