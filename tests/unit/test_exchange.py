"""Requests and answers by number: the same tests over the native and the pure-Python side of the parent."""

import os
import time

import numpy as np
import pytest
from exchange_twins import CALLERS, LONG, PATIENCE_S, SECOND, WORKER_OF, Exchange, Service
from hypothesis import given
from hypothesis import strategies as st

from ninelives.spec.phase import Attention
from ninelives.transport.control import FROM_ASLEEP, GROUP_ATTENTION, GROUP_DONE, GROUP_SENT
from ninelives.transport.exchange import PARENT_ROUNDS, WORKER_ROUNDS

GROUPS = list(range(len(WORKER_OF)))
FIRST_NUMBERS = [0, 7, 2**31 - 1, 2**32 - 2, 2**32 - 1]


@pytest.fixture(params=CALLERS)
def twin(request):
    return request.param


@pytest.fixture
def exchange(twin):
    built = Exchange(twin)
    yield built
    built.close()


def test_an_asked_group_is_ready_when_its_worker_has_answered(exchange):
    caller = exchange.caller
    caller.post([1, 2])
    assert (caller.inflight_count, caller.wait(1, 0)) == (2, 0)
    exchange.answer(0)
    assert caller.wait(1, 0) == 1
    assert caller.collect(4, 0) == ([1], 0)
    assert [caller.is_inflight(g) for g in GROUPS] == [False, False, True, False]
    assert [caller.is_open(g) for g in GROUPS] == [False, False, True, False]


def test_asking_everybody_asks_each_group_once(exchange):
    exchange.caller.post_all()
    served = [exchange.answerer(w) for w in (0, 1)]
    for answerer in served:
        for _ in range(2):
            answerer.publish(answerer.next_group(), 0)
    assert exchange.caller.wait(4, 0) == 4
    assert exchange.control.group[:, GROUP_SENT].tolist() == [1, 1, 1, 1]
    assert exchange.caller.collect_all() == 0
    assert exchange.caller.inflight_count == 0


def test_what_was_handed_out_is_not_handed_out_again(exchange):
    exchange.caller.post_all()
    exchange.answer(0)
    exchange.answer(1)
    seen = [exchange.caller.collect(1, 0)[0] for _ in range(5)]
    assert seen == [[0], [1], [2], [3], []]
    assert exchange.caller.wait(1, 0) == 0


def test_a_group_the_parent_answers_itself_is_ready_at_once_and_no_worker_hears_of_it(exchange):
    exchange.caller.answer(2)
    assert exchange.caller.wait(1, LONG) == 1
    assert not exchange.caller.is_open(2)
    assert exchange.caller.collect(4, 0) == ([2], 0)


def test_settling_closes_the_request_of_a_dead_worker_and_forgets_its_attention(exchange):
    exchange.caller.post([0])
    exchange.control.group[0, GROUP_ATTENTION] = int(Attention.FAULT)
    exchange.caller.settle(0)
    assert not exchange.caller.is_open(0)
    assert exchange.caller.collect(4, 0) == ([0], 0)


@pytest.mark.parametrize("need", [1, 2, 3, 4])
def test_ready_groups_are_handed_out_in_turn_from_the_given_place(exchange, need):
    for start in GROUPS:
        exchange.caller.post_all()
        exchange.answer(0)
        exchange.answer(1)
        turn = [g % 4 for g in range(start, start + 4)]
        assert exchange.caller.collect(need, start) == (turn[:need], 0)
        assert exchange.caller.inflight_count == 4 - need
        exchange.caller.collect_all()


@pytest.mark.parametrize("need", [1, 2, 3])
def test_no_group_starves_when_all_are_always_ready(exchange, need):
    counts, turn = np.zeros(4, int), 0
    exchange.caller.post_all()
    for _ in range(40):
        exchange.answer(0)
        exchange.answer(1)
        groups, _ = exchange.caller.collect(need, turn)
        turn = (groups[-1] + 1) % 4
        counts[groups] += 1
        exchange.caller.post(groups)
    assert counts.max() - counts.min() <= 1


def test_a_worker_serves_its_groups_in_turn_however_often_one_of_them_asks(exchange):
    answerer, served = exchange.answerer(0), []
    exchange.caller.post([0, 1])
    for _ in range(4):
        group = answerer.next_group()
        answerer.publish(group, 0)
        served.append(group)
        exchange.caller.post([0] if group == 0 else [1])
    assert served == [0, 1, 0, 1]


def test_attention_is_of_the_groups_that_are_handed_out_and_of_no_others(exchange):
    exchange.caller.post_all()
    exchange.answer(0, int(Attention.MAIL))
    exchange.answer(1, int(Attention.FAULT | Attention.ENDED))
    assert exchange.caller.collect(1, 0) == ([0], Attention.MAIL)
    assert exchange.caller.collect(2, 1) == ([1, 2], Attention.MAIL | Attention.FAULT | Attention.ENDED)
    exchange.caller.post([0, 1, 2])
    exchange.answer(0, int(Attention.MAIL))
    exchange.answer(1, int(Attention.ENDED))
    assert exchange.caller.collect_all() == Attention.MAIL | Attention.ENDED | Attention.FAULT


@pytest.mark.parametrize("first", FIRST_NUMBERS)
def test_a_late_answer_is_never_taken_for_the_answer_to_a_newer_request(twin, first):
    exchange = Exchange(twin, first)
    caller, answerer = exchange.caller, exchange.answerer(0)
    for _ in range(3):  # over the end of the numbers
        caller.post([0])
        assert answerer.next_group() == 0
        caller.post([0])  # while the first request is still being served
        answerer.publish(0, int(Attention.MAIL))
        assert caller.is_open(0)
        assert caller.wait(1, 0) == 0
        assert caller.collect(4, 0) == ([], 0)
        assert answerer.next_group() == 0, "the newer request is still to be served"
        answerer.publish(0, int(Attention.ENDED))
        assert caller.collect(4, 0) == ([0], Attention.ENDED)
    assert int(exchange.control.group[0, GROUP_SENT]) == (first + 6) % 2**32
    exchange.close()


def test_a_wait_ends_when_its_time_is_over(exchange):
    exchange.caller.post([0])
    began = time.monotonic()
    assert exchange.caller.wait(1, SECOND // 100) == 0
    assert 0.01 <= time.monotonic() - began < PATIENCE_S
    assert not exchange.control.parent[0], "awake again"


def test_a_wait_ends_early_when_the_extra_descriptor_has_news(twin):
    read_end, write_end = os.pipe()
    for given_later in (False, True):
        exchange = Exchange(twin, extra_fd=-1 if given_later else read_end)
        if given_later:
            exchange.caller.extra_fd = read_end
        assert exchange.caller.extra_fd == read_end
        os.write(write_end, b"x")
        exchange.caller.post([0])
        until = time.monotonic() + PATIENCE_S
        assert exchange.caller.wait(1, LONG) == 0
        assert time.monotonic() < until
        os.read(read_end, 1)
        exchange.close()
    os.close(read_end)
    os.close(write_end)


def has_rung(bell):
    try:
        return bool(os.read(bell.wait_fd, 8))
    except BlockingIOError:
        return False


def test_only_workers_that_sleep_and_are_asked_are_rung(exchange):
    exchange.caller.post_all()
    assert [has_rung(bell) for bell in exchange.bells] == [False, False]
    exchange.control.from_worker[:, FROM_ASLEEP] = 1
    exchange.caller.post([2])
    assert [has_rung(bell) for bell in exchange.bells] == [False, True]
    exchange.caller.post_all()
    assert [has_rung(bell) for bell in exchange.bells] == [True, True]


def test_a_group_that_does_not_exist_is_refused(exchange):
    for refused in (
        lambda: exchange.caller.post([4]),
        lambda: exchange.caller.settle(4),
    ):
        with pytest.raises(IndexError):
            refused()


# ---- both sides at once --------------------------------------------------------------------------------------------


def wait_for(exchange, need):
    """Wait as the pool does; a lost wake-up would only end with the time of one wait."""
    until = time.monotonic() + PATIENCE_S
    while exchange.caller.wait(need, LONG) < need:
        pass
    assert time.monotonic() < until, "a wake-up was lost"


def doubler(exchange, worker, rounds):
    """Answers every request with twice the number it finds, and counts what it served."""
    answerer, control = exchange.answerer(worker, rounds), exchange.control

    def run():
        while (group := answerer.next_group()) is not None:
            control.reward[group] = 2 * control.seed[group]
            answerer.publish(group, group + 1)

    return Service(run, exchange.stop)


@pytest.mark.parametrize("parent_rounds", [1, PARENT_ROUNDS])
@pytest.mark.parametrize("worker_rounds", [1, WORKER_ROUNDS])
def test_no_wake_up_is_lost_and_every_answer_is_complete_when_it_is_seen(twin, parent_rounds, worker_rounds):
    exchange = Exchange(twin, first=2**32 - 50, rounds=parent_rounds)
    with doubler(exchange, 0, worker_rounds), doubler(exchange, 1, worker_rounds):
        for number in range(100):
            exchange.control.seed[:] = number + np.arange(4)
            exchange.caller.post_all()
            wait_for(exchange, 4)
            assert exchange.control.reward.tolist() == [2.0 * (number + g) for g in GROUPS]
            assert exchange.caller.collect_all() == 1 | 2 | 3 | 4
    exchange.close()


@pytest.mark.parametrize("need", [1, 2, 3])
def test_first_ready_batches_hand_every_answer_out_exactly_once(twin, need):
    exchange = Exchange(twin)
    counts, turn = np.zeros(4, int), 0
    with doubler(exchange, 0, WORKER_ROUNDS), doubler(exchange, 1, WORKER_ROUNDS):
        exchange.caller.post_all()
        for number in range(200):
            wait_for(exchange, need)
            groups, attention = exchange.caller.collect(need, turn)
            assert len(groups) == len(set(groups)) == need
            assert attention == np.bitwise_or.reduce(np.array(groups) + 1)
            turn = (groups[-1] + 1) % 4
            counts[groups] += 1
            assert (exchange.control.reward[groups] == 2 * exchange.control.seed[groups]).all()
            exchange.control.seed[groups] = number
            exchange.caller.post(groups)
    assert exchange.control.group[:, GROUP_SENT].tolist() == (counts + 1).tolist()
    exchange.close()


def test_a_sleeping_worker_stops_when_told(exchange):
    answerer = exchange.answerer(0, rounds=1)
    got = []
    with Service(lambda: got.append(answerer.next_group()), exchange.stop):
        until = time.monotonic() + PATIENCE_S
        while not exchange.is_asleep(0):
            assert time.monotonic() < until
    assert got == [None]
    assert not exchange.is_asleep(0)


def test_after_stop_nothing_more_is_served(exchange):
    exchange.caller.post_all()
    exchange.stop()
    assert exchange.answerer(0).next_group() is None


# ---- the twins against each other ----------------------------------------------------------------------------------

GROUP = st.sampled_from(GROUPS)
MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("post"), st.lists(GROUP, unique=True)),
        st.tuples(st.just("post_all")),
        st.tuples(st.just("answer"), GROUP),
        st.tuples(st.just("settle"), GROUP),
        st.tuples(st.just("collect"), st.integers(0, 5), GROUP),
        st.tuples(st.just("collect_all")),
        st.tuples(st.just("wait"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("is_open"), GROUP),
        st.tuples(st.just("is_inflight"), GROUP),
        st.tuples(st.just("worker looks"), GROUP),
        st.tuples(st.just("worker answers"), GROUP, st.integers(0, 7)),
    ),
    max_size=40,
)


def play(exchange, moves):
    """Everything a caller shows during these moves; a worker may answer a request it saw long ago."""
    shown, asked, words = [], [0] * 4, exchange.control.group
    for name, *args in moves:
        if name == "worker looks":
            asked[args[0]] = int(words[args[0], GROUP_SENT])
        elif name == "worker answers":
            words[args[0], GROUP_ATTENTION] = args[1]
            words[args[0], GROUP_DONE] = asked[args[0]]
        else:
            shown.append(getattr(exchange.caller, name)(*args))
        shown.append((exchange.caller.inflight_count, words.tolist()))
    return shown


@given(MOVES, st.sampled_from(FIRST_NUMBERS))
def test_both_twins_show_the_same_whatever_happens(moves, first):
    shown = []
    for twin in CALLERS:
        exchange = Exchange(twin, first, rounds=1)
        shown.append(play(exchange, moves))
        exchange.close()
    assert shown[0] == shown[1]
