"""Calls in the wrong order are refused with what to do; calls into environments come back in order."""

from __future__ import annotations

import pytest
from places import Introspective

import ninelives
from ninelives.spec.call import CallRequest
from ninelives.testing import Fragile, When
from ninelives.testing.counting import STEP

NONE = [0, 0, 0]


@pytest.fixture
def pool():
    with ninelives.Pool(Introspective, 3, workers=2, start_method="fork") as made:
        yield made


def test_send_before_the_first_reset_is_refused(pool):
    with pytest.raises(ninelives.UsageError, match="reset"):
        pool.send(NONE)


def test_recv_without_send_is_refused(pool):
    pool.reset(seed=1)
    with pytest.raises(ninelives.UsageError, match="send"):
        pool.recv()


def test_second_send_before_recv_is_refused_and_the_first_still_counts(pool):
    pool.reset(seed=1)
    pool.send(NONE)
    with pytest.raises(ninelives.UsageError, match="recv"):
        pool.send(NONE)
    assert pool.recv().obs[:, STEP].tolist() == [1, 1, 1]
    with pytest.raises(ninelives.UsageError, match="send"):
        pool.recv()


@pytest.mark.parametrize("slots", [[3], [-1], [0, 99]])
def test_slots_that_do_not_exist_are_refused(pool, slots):
    pool.reset(seed=1)
    with pytest.raises(ninelives.UsageError, match=r"outside 0\.\.2"):
        pool.reset(slots=slots)
    with pytest.raises(ninelives.UsageError, match=r"outside 0\.\.2"):
        pool.call("pid", slots=slots)


@pytest.mark.parametrize("actions", [[0, 0], [0, 0, 0, 0], [[0, 0, 0]]])
def test_wrong_number_of_actions_is_refused_and_nothing_is_sent(pool, actions):
    pool.reset(seed=1)
    with pytest.raises(ninelives.UsageError):
        pool.send(actions)
    assert pool.step(NONE).obs[:, STEP].tolist() == [1, 1, 1]


def test_everything_after_close_is_refused_as_closed_by_you():
    pool = ninelives.Pool(Introspective, 3, workers=1, start_method="fork")
    pool.reset(seed=1)
    pool.close()
    for late in (
        pool.reset,
        pool.recv,
        pool.metrics,
        lambda: pool.send(NONE),
        lambda: pool.step(NONE),
        lambda: pool.call("pid"),
    ):
        with pytest.raises(ninelives.ClosedError):
            late()


def test_reset_drops_answers_that_are_under_way(pool):
    pool.reset(seed=1)
    pool.send(NONE)
    assert pool.reset(seed=1).obs[:, STEP].tolist() == [0, 0, 0]
    assert pool.step(NONE).obs[:, STEP].tolist() == [1, 1, 1]


def test_reset_of_some_slots_leaves_the_others_where_they_are(pool):
    pool.reset(seed=1)
    pool.step(NONE)
    batch = pool.reset(slots=[1], seed=50)
    assert batch.slots.tolist() == [1]
    assert batch.obs[:, :4].tolist() == [[1, 51, 1, 0]]
    assert pool.step(NONE).obs[:, STEP].tolist() == [2, 1, 2]


def test_call_answers_in_the_order_of_the_slots_it_was_asked_of(pool):
    assert pool.call("add", 10) == (10, 11, 12)
    assert pool.call("add", 10, other=5, slots=[2, 0]) == (17, 15)
    assert pool.call("colour") == ("black",) * 3


def test_call_goes_between_steps_and_disturbs_no_episode(pool):
    pool.reset(seed=1)
    pool.step(NONE)
    pool.call("add", 1)
    assert pool.step(NONE).obs[:, STEP].tolist() == [2, 2, 2]


def test_call_while_answers_are_under_way_is_refused(pool):
    pool.reset(seed=1)
    pool.send(NONE)
    with pytest.raises(ninelives.UsageError, match="recv"):
        pool.call("pid")


def test_call_of_its_own_for_every_slot(pool):
    requests = [CallRequest("set", "colour", (colour,), {}) for colour in ("red", "green", "blue")]
    pool.request(requests)
    assert pool.call("colour") == ("red", "green", "blue")


def test_call_that_raises_is_the_callers_mistake_and_the_episode_goes_on(pool):
    pool.reset(seed=1)
    pool.step(NONE)
    with pytest.raises(ninelives.EnvRaisedError, match="there is no such thing") as caught:
        pool.call("complain")
    assert caught.value.fault.phase == "call"
    assert "in complain" in caught.value.fault.traceback
    batch = pool.step(NONE)
    assert batch.valid.all()
    assert batch.obs[:, STEP].tolist() == [2, 2, 2]


def test_call_whose_result_cannot_be_sent_is_an_error_and_the_episode_goes_on(pool):
    pool.reset(seed=1)
    with pytest.raises(ninelives.EnvRaisedError, match="pickle"):
        pool.call("give_back_a_lock")
    assert pool.step(NONE).valid.all()


def test_call_of_a_missing_method_names_it(pool):
    with pytest.raises(ninelives.EnvRaisedError, match="no_such_method"):
        pool.call("no_such_method")


def test_worker_that_crashes_in_a_call_is_reported_and_comes_back(pool):
    pool.reset(seed=1)
    with pytest.raises(ninelives.WorkerCrashedError, match="SIGABRT") as caught:
        pool.call("crash", slots=[2])
    assert (caught.value.fault.phase, caught.value.fault.culprit) == ("call", 2)
    assert pool.call("add", 1) == (1, 2, 3)
    assert pool.step(NONE).valid.all(), "the episode goes on from where it was"


def test_call_that_hangs_is_ended_at_its_deadline():
    class Sleepy(Introspective):
        def nap(self):
            Fragile("hang_sleeping", When("construct"))()

    with ninelives.Pool(Sleepy, 2, workers=2, start_method="fork", call_timeout_s=0.5) as pool:
        pool.reset(seed=1)
        with pytest.raises(ninelives.WorkerHungError, match="hung in call") as caught:
            pool.call("nap", slots=[1])
        assert "in nap" in caught.value.fault.stderr_tail
        assert pool.step([0, 0]).valid[0]


def test_step_of_a_finished_slot_is_refused_where_autoreset_is_disabled():
    with ninelives.Pool(lambda: Introspective(2), 2, workers=1, start_method="fork", autoreset="disabled") as pool:
        pool.reset(seed=1)
        pool.step([0, 0])
        assert pool.step([0, 0]).terminated.all()
        with pytest.raises(ninelives.UsageError, match=r"slots \[0, 1\] have finished"):
            pool.step([0, 0])
        pool.reset(slots=[0, 1])
        assert pool.step([0, 0]).obs[:, STEP].tolist() == [1, 1]


def test_pool_says_what_it_is(pool):
    assert repr(pool) == "Pool(Introspective, num_envs=3, batch_size=3, 2 workers)"
    pool.close()
    assert "closed" in repr(pool)
