"""One fault at a time: what is healed, what is cut instead, what is reported, and which slots are not affected."""

from __future__ import annotations

import os
import time
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from mortal_games import POISON, POISON_STEP, Moody, Poisonous, TextActions
from streams import SLOTS, Streams, action_at, kill_worker, of_kind, pool_of, undisturbed

import ninelives
from ninelives.events import FaultSeen, HealFailed, SlotHealed, WorkerRecycled
from ninelives.pool.recovery.recorder import CHUNK
from ninelives.testing import CountingEnv, Fragile, Referee, When

STEPS, MANY = 20, 3000
NUMBER = 0


def test_healing_is_what_a_pool_does_by_default():
    assert ninelives.PoolOptions.of({}).on_fault == "heal"
    with pool_of("CartPole-v1") as pool:
        assert of_kind(pool, ninelives.events.PoolStarted)[0].on_fault == "heal"


def test_a_killed_worker_is_an_event_and_nothing_else():
    calm = undisturbed(CountingEnv, MANY)
    with pool_of(CountingEnv) as pool:
        streams = Streams(pool)
        streams.step(7)
        kill_worker(pool, 0)
        healed = streams.step_until_reported(SlotHealed, 2)
        streams.step(STEPS)
        assert len(of_kind(pool, FaultSeen)) == 1
    assert streams.agree_with(calm)
    assert sorted(event.slots for event in healed) == [(0,), (1,)]
    assert all(event.replayed in (7, 8) and event.from_step == 0 and event.seconds > 0 for event in healed)


def test_an_episode_of_many_thousand_steps_comes_back_too():
    """Its oldest rows are compared by a part of their digests."""
    actions = np.random.default_rng(3).integers(0, 7, (2 * CHUNK, SLOTS))
    with pool_of(CountingEnv) as pool:
        referee = Referee(SLOTS)
        referee.reset(pool.reset(seed=0))
        for number, row in enumerate(actions):
            if number == 2 * CHUNK - 50:
                kill_worker(pool, 0)
            batch = pool.step(row)
            assert batch.valid.all()
            referee.step(row, batch)
        assert [event.replayed for event in of_kind(pool, SlotHealed)] == [2 * CHUNK - 50] * 2


def test_workers_replaced_in_mid_episode_change_no_row():
    """Limits are checked once a second, so the run goes on until both workers were replaced."""

    def either(slot, step):
        return (slot + step // 3) % 2

    with pool_of("CartPole-v1", max_steps=100) as pool:
        streams, end = Streams(pool, either), time.monotonic() + 30.0
        while {event.worker for event in of_kind(pool, WorkerRecycled)} != {0, 1}:
            assert time.monotonic() < end
            streams.step(50)
        assert not of_kind(pool, FaultSeen)
    assert streams.agree_with(undisturbed("CartPole-v1", len(streams.rows[0]) - 1, either))


# ---- not deterministic ----------------------------------------------------------------------------------------------


def test_an_environment_with_chance_of_its_own_is_cut_at_every_fault_and_never_goes_on_wrongly():
    with pool_of(Moody) as pool:
        streams = Streams(pool)
        for kills in range(1, 9):
            streams.step(5)
            kill_worker(pool, kills % 2)
            streams.step(6)
            failed = of_kind(pool, HealFailed)
            assert len(failed) == 2 * kills
        assert {(event.reason, event.step) for event in failed} == {("diverged", 0)}
        assert not of_kind(pool, SlotHealed)
    for slot in range(SLOTS):
        assert len(streams.masked(slot)) == 2 * 4, "a fault row and a fresh row each time"
        assert_one_copy_an_episode(streams.rows[slot])


def assert_one_copy_an_episode(rows):
    """A valid row continues the row before it: the same copy of the environment, one step later."""
    for (before, *_), (after, *_, is_valid) in pairwise(rows):
        assert not is_valid or after == [before[NUMBER], before[1] + 1]


def test_a_replay_that_went_another_way_thousands_of_steps_ago_is_found_there():
    """By a byte of each digest: one other row in 128 looks alike, eight in a row do not."""
    shows_at = 40
    with pool_of(partial(Moody, shows_at)) as pool:
        pool.reset(seed=0)
        for _ in range(CHUNK + 100):
            pool.step(np.zeros(SLOTS, np.int64))
        kill_worker(pool, 0)
        pool.step(np.zeros(SLOTS, np.int64))
        failed = of_kind(pool, HealFailed)
    assert [event.reason for event in failed] == ["diverged", "diverged"]
    assert all(shows_at <= event.step < shows_at + 8 for event in failed)


@pytest.mark.parametrize("shows_at", [1, 4])
def test_the_step_at_which_a_replay_went_another_way_is_named(shows_at):
    with pool_of(partial(Moody, shows_at)) as pool:
        streams = Streams(pool)
        streams.step(8)
        kill_worker(pool, 0)
        streams.step(3)
        failed = of_kind(pool, HealFailed)
    assert [(event.slots, event.reason, event.step) for event in failed] == [
        ((0,), "diverged", shows_at),
        ((1,), "diverged", shows_at),
    ]


def test_chance_that_has_not_shown_yet_is_healed():
    with pool_of(partial(Moody, 50)) as pool:
        streams = Streams(pool)
        streams.step(8)
        kill_worker(pool, 0)
        streams.step(8)
        assert not of_kind(pool, HealFailed)
    assert [streams.masked(slot) for slot in range(SLOTS)] == [[]] * SLOTS


def test_an_environment_whose_actions_are_not_journalled_is_cut_and_the_reason_is_reported():
    words = ["ab"] * SLOTS
    with pool_of(TextActions) as pool:
        pool.reset(seed=1)
        pool.step(words)
        kill_worker(pool, 0)
        batches = [pool.step(words) for _ in range(5)]
        assert [event.reason for event in of_kind(pool, HealFailed)] == ["cannot", "cannot"]
    assert batches[-1].valid.all()


# ---- poison ---------------------------------------------------------------------------------------------------------


def test_a_poison_action_is_tried_once_more_then_cut_and_named():
    guilty = 1

    def action(slot, step):
        return POISON if (slot, step) == (guilty, POISON_STEP + 1) else action_at(slot, step)

    calm = undisturbed(CountingEnv, STEPS)
    with pool_of(Poisonous) as pool:
        streams = Streams(pool, action)
        streams.step(STEPS)
        faults, failed = of_kind(pool, FaultSeen), of_kind(pool, HealFailed)
    assert [fault.signal for fault in faults] == ["SIGSEGV", "SIGSEGV"]
    assert [fault.culprit for fault in faults] == [guilty, guilty]
    assert [(event.slots, event.reason, event.action) for event in failed] == [((guilty,), "poison", POISON)]
    assert streams.agree_with(calm, [slot for slot in range(SLOTS) if slot != guilty])
    assert streams.rows[guilty][: POISON_STEP + 1] == calm.rows[guilty][: POISON_STEP + 1]
    assert streams.masked(guilty) == [POISON_STEP + 1, POISON_STEP + 2]


# ---- first-ready batches --------------------------------------------------------------------------------------------


def test_others_go_on_while_one_heals():
    calm = undisturbed(CountingEnv, MANY)
    with pool_of(SlowToBuild(), workers=4, batch_size=1) as pool:
        streams = Streams(pool)
        streams.send(range(SLOTS))
        while min(len(rows) for rows in streams.rows.values()) < 10:
            streams.send(streams.recv())
        kill_worker(pool, 0)
        order = []
        while not of_kind(pool, SlotHealed) or order.count(0) < 20:
            order += (slots := streams.recv())
            streams.send(slots)
            time.sleep(0.0005)  # so that the others make no more rows than there are to compare with
    away = max(later - earlier for earlier, later in pairwise([0, *(n for n, slot in enumerate(order) if slot == 0)]))
    assert away > 50, "the others made no rows while slot 0 was away"
    assert streams.agree_with(calm)


class SlowToBuild:
    """Takes a moment to build."""

    def __call__(self):
        time.sleep(0.2)
        return CountingEnv()


# ---- the environment breaks, its worker lives -----------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["step", "reset"])
def test_an_environment_that_raises_once_is_healed(tmp_path, phase):
    once = str(tmp_path / "raised")
    when = When(phase, at=5 if phase == "step" else 2, slots=(1,), generations=None, once=once)
    calm = undisturbed(partial(CountingEnv, 6), MANY)
    with pool_of(Fragile("raise_error", when, episode_steps=6)) as pool:
        streams = Streams(pool)
        streams.step(STEPS)
        healed = streams.step_until_reported(SlotHealed, 1)
        faults = of_kind(pool, FaultSeen)
    assert os.path.exists(once)
    assert [(fault.kind, fault.slots) for fault in faults] == [("raised", (1,))]
    assert [event.slots for event in healed] == [(1,)]
    assert streams.agree_with(calm)
