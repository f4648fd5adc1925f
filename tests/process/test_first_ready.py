"""Batches of the first slots that are ready: a slow slot delays no other, and no slot starves."""

from __future__ import annotations

import numpy as np
import pytest

import ninelives
from ninelives.pool.data.turns import LEFT_OUT_ROUNDS
from ninelives.testing import CountingEnv, Fragile, Referee, When
from ninelives.testing.counting import ACTIONS


def play(pool, batches, seed=5):
    """Send back the slots of each batch with new actions; returns how often each slot came, and the batches."""
    referee, draw = Referee(pool.num_envs), np.random.default_rng(seed)
    referee.reset(pool.reset(seed=seed))
    actions = draw.integers(0, ACTIONS, pool.num_envs)
    pool.send(actions)
    seen = []
    for _ in range(batches):
        batch = pool.recv()
        referee.step(actions, batch)
        seen.append(batch)
        actions[batch.slots] = draw.integers(0, ACTIONS, len(batch))
        pool.send(actions[batch.slots], batch.slots)
    return np.bincount(np.concatenate([batch.slots for batch in seen]), minlength=pool.num_envs), seen


@pytest.mark.parametrize("batch_size", [1, 2, 4])
def test_no_slot_starves_when_all_are_alike(batch_size):
    """Over seconds: in less, a busy machine may run one worker only while another one waits for a core."""
    with ninelives.Pool(CountingEnv, 8, workers=2, batch_size=batch_size, start_method="fork") as pool:
        counts, seen = play(pool, 40_000 // batch_size)
    assert {len(batch) for batch in seen} == {batch_size}
    assert counts.min() > 0.1 * counts.mean()  # slots that are ready first come more often; none is left out


@pytest.mark.parametrize("native", ["1", "0"])
def test_slots_that_are_all_ready_take_turns(monkeypatch, native):
    monkeypatch.setenv("NINELIVES_NATIVE", native)
    came = []
    with ninelives.Pool(CountingEnv, 4, workers=1, batch_size=1, start_method="fork") as pool:
        pool.reset(seed=5)
        pool.send([0] * 4)
        for _ in range(12):
            while pool._caller.wait(4, 1_000_000_000) < 4:
                pass
            batch = pool.recv()
            came.append(int(batch.slots[0]))
            pool.send([0], batch.slots)
    assert came == [0, 1, 2, 3] * 3


def test_slow_slot_holds_up_no_other_worker_and_comes_in_its_turn():
    """Counted over whole naps of the slow one: in less, a busy machine may not have run each worker once."""
    slow = Fragile("nap", When("step", again=True, slots=(0,)))
    with ninelives.Pool(slow, 4, workers=4, batch_size=1, start_method="fork") as pool:
        counts, _ = play(pool, 100)
        while counts[0] < 2:
            batch = pool.recv()
            counts[batch.slots] += 1
            pool.send([0], batch.slots)
    assert counts[1:].min() > 0.3 * counts[1:].mean() > 10 * counts[0]


@pytest.mark.parametrize("native", ["1", "0"])
def test_no_slot_is_left_out_for_more_than_the_stated_number_of_batches(monkeypatch, native):
    monkeypatch.setenv("NINELIVES_NATIVE", native)
    slow = Fragile("nap", When("step", again=True, slots=(0,)))
    with ninelives.Pool(slow, 4, workers=4, batch_size=1, start_method="fork") as pool:
        _, seen = play(pool, 4 * LEFT_OUT_ROUNDS * 4)
    came = [number for number, batch in enumerate(seen) if 0 in batch.slots]
    assert len(came) >= 3
    assert max(np.diff([0, *came])) <= LEFT_OUT_ROUNDS * 4


@pytest.mark.parametrize("native", ["1", "0"])
def test_a_slot_that_hangs_is_waited_for_only_until_its_deadline(monkeypatch, tmp_path, native):
    """Then its worker is killed, and the others go on while it heals."""
    monkeypatch.setenv("NINELIVES_NATIVE", native)
    hangs = Fragile("hang_sleeping", When("step", at=5, slots=(0,), generations=None, once=str(tmp_path / "hung")))
    with ninelives.Pool(hangs, 4, workers=4, batch_size=1, start_method="fork", step_timeout_s=0.5) as pool:
        play(pool, 2 * LEFT_OUT_ROUNDS * 4)
        while not any(isinstance(event, ninelives.events.SlotHealed) for event in pool.events):
            batch = pool.recv()
            assert batch.valid.all()
            pool.send([0] * len(batch), batch.slots)
        faults = [event for event in pool.events if isinstance(event, ninelives.events.FaultSeen)]
    assert [(fault.kind, fault.culprit) for fault in faults] == [("hung", 0)]


def test_slow_slot_shares_its_worker_with_slots_that_still_get_their_turn():
    slow = Fragile("nap", When("step", again=True, slots=(0,)))
    with ninelives.Pool(slow, 4, workers=1, batch_size=1, start_method="fork") as pool:
        counts, _ = play(pool, 12)
    assert counts.min() >= 2


def test_groups_come_whole_and_batches_are_made_of_groups():
    with ninelives.Pool(CountingEnv, 8, workers=2, groups=2, batch_size=4, start_method="fork") as pool:
        _, seen = play(pool, 200)
    groups = [{0, 1}, {2, 3}, {4, 5}, {6, 7}]
    for batch in seen:
        slots = set(batch.slots.tolist())
        assert sum(group <= slots for group in groups) == 2
        assert sum(group.isdisjoint(slots) for group in groups) == 2


def test_part_of_a_group_cannot_be_sent():
    with ninelives.Pool(CountingEnv, 4, workers=1, groups=2, batch_size=2, start_method="fork") as pool:
        pool.reset(seed=1)
        with pytest.raises(ninelives.UsageError, match="whole groups"):
            pool.send([0], [1])
        with pytest.raises(ninelives.UsageError, match="twice"):
            pool.send([0, 0], [1, 1])
        pool.send([0, 0], [2, 3])
        assert sorted(pool.recv().slots.tolist()) == [2, 3]


def test_batch_that_is_no_whole_number_of_groups_is_refused():
    with pytest.raises(ninelives.ConfigError, match="whole number of groups"):
        ninelives.Pool(CountingEnv, 8, workers=2, groups=2, batch_size=3, start_method="fork")


def test_full_batches_are_in_the_order_of_the_slots_also_with_groups():
    with ninelives.Pool(CountingEnv, 6, workers=2, groups=3, start_method="fork") as pool:
        pool.reset(seed=1)
        for _ in range(50):
            assert pool.step(np.zeros(6, np.int64)).slots.tolist() == [0, 1, 2, 3, 4, 5]


def test_trajectories_do_not_depend_on_who_was_ready_first():
    """Whatever the order of answers, each slot's own rows are those of a synchronous run with the same actions."""
    with ninelives.Pool(CountingEnv, 6, workers=3, batch_size=2, start_method="fork") as pool:
        pool.reset(seed=9)
        pool.send(np.arange(6))
        streams = {slot: [] for slot in range(6)}
        while min(map(len, streams.values())) < 20:
            batch = pool.recv()
            for i, slot in enumerate(batch.slots.tolist()):
                streams[slot].append(batch.obs[i])
            pool.send(batch.slots, batch.slots)
    with ninelives.Pool(CountingEnv, 6, workers=1, start_method="fork") as pool:
        pool.reset(seed=9)
        rows = [pool.step(np.arange(6)).obs for _ in range(20)]
    for slot, stream in streams.items():
        assert np.array_equal(np.array(stream[:20]), np.array(rows)[:, slot])
