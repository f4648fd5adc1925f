"""States of slots: saved, loaded into other slots and pools, broadcast from one to all, and healed afterwards."""

from __future__ import annotations

import os
import pickle
import signal

import gymnasium as gym
import numpy as np
import pytest

import ninelives

N = 4


class Saved(gym.Wrapper):
    """CartPole that offers snapshots of its own."""

    def __init__(self):
        super().__init__(gym.make("CartPole-v1", disable_env_checker=True))

    def save_state(self):
        return pickle.dumps((self.unwrapped.state, self.unwrapped.steps_beyond_terminated, self.env._elapsed_steps))

    def load_state(self, state):
        self.reset()
        self.unwrapped.state, self.unwrapped.steps_beyond_terminated, self.env._elapsed_steps = pickle.loads(state)


def opened(env="CartPole-v1", num_envs=N, **settings):
    return ninelives.Pool(env, num_envs, **{"workers": 2, "start_method": "fork", **settings})


def play(pool, steps, first=0):
    """Alternating actions, which keep the pole up for long enough; returns the rows."""
    return [pool.step(np.full(pool.num_envs, (first + t) % 2)) for t in range(steps)]


def assert_same(rows, wanted, slots=slice(None), wanted_slots=slice(None)):
    for mine, theirs in zip(rows, wanted, strict=True):
        for name in ("obs", "reward", "terminated", "truncated", "valid"):
            np.testing.assert_array_equal(getattr(mine, name)[slots], getattr(theirs, name)[wanted_slots])


@pytest.mark.parametrize(("env", "is_snapshot"), [("CartPole-v1", False), (Saved, True)], ids=["recipe", "snapshot"])
def test_slots_go_on_from_a_saved_state_as_they_did_the_first_time(env, is_snapshot):
    with opened(env) as pool:
        pool.reset(seed=3)
        (last,) = play(pool, 6)[-1:]
        states = pickle.loads(pickle.dumps(pool.save_states()))
        wanted = play(pool, 5)
        loaded = pool.load_states(states)
        np.testing.assert_array_equal(loaded.obs, last.obs)
        assert loaded.valid.all()
        assert not (loaded.terminated | loaded.truncated).any()
        assert_same(play(pool, 5), wanted)
    assert {state.is_snapshot for state in states} == {is_snapshot}
    assert {(state.length, state.total) for state in states} == {(6, 6.0)}


@pytest.mark.parametrize("env", ["CartPole-v1", Saved], ids=["recipe", "snapshot"])
def test_all_slots_go_on_from_the_best_slot_also_when_workers_are_killed_then(env):
    with opened(env) as pool:
        pool.reset(seed=3)
        play(pool, 6)
        assert pool.broadcast_state(2).slots.tolist() == [0, 1, 3]
        rows = play(pool, 3)
        for pid in pool.worker_pids:
            os.kill(pid, signal.SIGKILL)
        rows += play(pool, 3, first=3)
    for batch in rows:
        assert batch.valid.all()
        assert (batch.obs == batch.obs[2]).all()


def test_a_state_fits_any_slot_of_any_pool_of_the_same_environment():
    with opened() as pool:
        pool.reset(seed=3)
        play(pool, 6)
        states = pool.save_states([1])
        wanted = play(pool, 5)
    with opened(num_envs=2, workers=1) as pool:
        pool.reset(seed=99)
        pool.load_states(states, [0])
        assert_same(play(pool, 5), wanted, slots=[0], wanted_slots=[1])


def test_a_loaded_episode_ends_and_the_next_one_begins_as_usual():
    with opened() as pool:
        pool.reset(seed=3)
        play(pool, 3)
        states = pool.save_states()
        pool.load_states(states)
        ended = np.zeros(N, bool)
        for _ in range(60):
            batch = pool.step(np.zeros(N, np.int64))
            ended |= batch.terminated
            assert batch.valid.all()
        assert ended.all()
        lengths = pool.metrics().slots[0].episodes
    assert lengths >= 1


def test_states_of_finished_slots_and_foreign_states_are_refused():
    with opened() as pool:
        pool.reset(seed=3)
        with pytest.raises(ninelives.UsageError, match="one state per slot"):
            pool.load_states(pool.save_states(), [0])
        with pytest.raises(ninelives.UsageError, match="str is not a state"):
            pool.load_states(["x"], [0])
        while not pool.step(np.zeros(N, np.int64)).terminated[0]:
            pass
        with pytest.raises(ninelives.UsageError, match="finished"):
            pool.save_states([0])
        foreign = pool.save_states([s for s in range(N) if not pool._control.ended[s]][:1])
    with opened("Acrobot-v1", 1, workers=1) as pool, pytest.raises(ninelives.CheckpointError, match="other spaces"):
        pool.load_states(foreign, [0])


def test_calls_made_before_and_after_a_snapshot_count_once_each():
    class Coins(Saved):
        coins = 0

        def add_coin(self):
            self.coins += 1

        def step(self, action):
            obs, _, terminated, truncated, info = super().step(action)
            return obs, float(self.coins), terminated, truncated, info

        def save_state(self):
            return pickle.dumps((super().save_state(), self.coins))

        def load_state(self, state):
            inner, self.coins = pickle.loads(state)
            super().load_state(inner)

    def rewards(kill):
        with opened(Coins, 1, workers=1, snapshot_every=4) as pool:
            pool.reset(seed=3)
            pool.call("add_coin")
            play(pool, 6)
            pool.call("add_coin")
            play(pool, 2)
            if kill:
                os.kill(pool.worker_pids[0], signal.SIGKILL)
            return [float(batch.reward[0]) for batch in play(pool, 3)]

    assert rewards(kill=True) == rewards(kill=False) == [2.0, 2.0, 2.0]
