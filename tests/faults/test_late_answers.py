"""A timeout never shifts replies: whatever is late, every valid row is the successor of the row before it."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest
from scenes import DEADLINE_S, GUILTY, actions_at, deadlines, film, of_kind, pool_of

from ninelives.events import FaultSeen
from ninelives.testing import Fragile, Referee, When

PLENTY = {"max_restarts": 1000, "max_restarts_per_slot": 1000}


def test_worker_that_hangs_again_and_again_never_shifts_a_row():
    env = Fragile("hang_sleeping", When("step", at=4, slots=(GUILTY,), generations=None))
    with pool_of(env, start_method="fork", step_timeout_s=0.2, **PLENTY) as pool:
        seen = film(pool, steps=25)
    assert len({t for t, _, _ in seen.faults()}) >= 3
    assert seen.referee.valid_rows > 75


def test_first_ready_batches_go_on_without_the_hung_slot_and_stay_in_step():
    env = Fragile("hang_native", When("step", at=4, slots=(GUILTY,)))
    referee, actions, meanwhile, back = Referee(4), actions_at(0).copy(), 0, False
    with pool_of(env, start_method="fork", batch_size=1, **deadlines("step")) as pool:
        referee.reset(pool.reset(seed=3))
        pool.send(actions)
        while not back:
            batch = pool.recv()
            referee.step(actions, batch)
            meanwhile += int(batch.slots[0] > GUILTY)
            back = bool(of_kind(pool, FaultSeen)) and batch.slots[0] == GUILTY and bool(batch.valid[0])
            actions[batch.slots] = (actions[batch.slots] + 1) % 7
            pool.send(actions[batch.slots], batch.slots)
    assert meanwhile > 100


def test_answer_that_comes_after_its_deadline_but_before_the_kill_is_no_answer_to_the_next_request():
    """The nap is over while the stack is being written: the deadline is missed, and the answer comes all the same."""
    env = Fragile("nap", When("step", at=3, slots=(GUILTY,)))
    referee, step, back, end = Referee(4), 0, False, time.monotonic() + 10.0
    with pool_of(env, start_method="fork", step_timeout_s=0.2) as pool:
        referee.reset(pool.reset(seed=3))
        while not back:
            step += 1
            batch = pool.step(actions_at(step))
            referee.step(actions_at(step), batch)
            back = bool(of_kind(pool, FaultSeen)) and bool(batch.valid.all())
            assert time.monotonic() < end
        assert [fault.kind for fault in of_kind(pool, FaultSeen)] == ["hung"]


@pytest.mark.parametrize("asleep_s", [0.1, DEADLINE_S + 0.1])
def test_worker_that_is_stopped_and_goes_on_stays_in_step(asleep_s):
    with pool_of(Fragile("nap", When("step", slots=())), start_method="fork", **deadlines("step")) as pool:
        referee = Referee(4)
        referee.reset(pool.reset(seed=3))
        pid = pool.worker_pids[0]
        os.kill(pid, signal.SIGSTOP)
        pool.send(actions_at(1))
        time.sleep(asleep_s)
        os.kill(pid, signal.SIGCONT)
        referee.step(actions_at(1), pool.recv())
        for step in range(2, 12):
            batch = pool.step(actions_at(step))
            referee.step(actions_at(step), batch)
    assert batch.valid.all()


def test_learner_that_thinks_longer_than_every_deadline_kills_no_worker():
    with pool_of(Fragile("nap", When("step", slots=())), start_method="fork", **deadlines("step", "reset")) as pool:
        pool.reset(seed=3)
        pool.step(actions_at(1))
        time.sleep(DEADLINE_S + 0.2)
        pool.send(actions_at(2))
        time.sleep(DEADLINE_S + 0.2)
        assert pool.recv().valid.all()
        assert not of_kind(pool, FaultSeen)
        assert np.array_equal(pool.step(actions_at(3)).obs[:, 3], [3, 3, 3, 3])
