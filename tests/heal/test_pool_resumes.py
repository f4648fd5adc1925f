"""A pool's place in its run, taken to another process: everything after it is as if nothing had happened."""

from __future__ import annotations

import os
import pickle
import signal
from itertools import product

import gymnasium as gym
import numpy as np
import pytest

import ninelives

N = 4
IS_FULL = os.environ.get("NINELIVES_FULL") == "1"
CHAIN, BEYOND = 12 if IS_FULL else 8, 20
"""Steps after which a pool is resumed, and how far it is then followed: episodes have one to five steps."""

FIELDS = ("obs", "reward", "terminated", "truncated", "valid")


class Dice(gym.Env):
    """Short episodes of random length; everything random comes from the environment's own generator."""

    observation_space = gym.spaces.Box(-100, 100, (2,), np.float64)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._left, self._sum = int(self.np_random.integers(1, 6)), 0.0
        return self._seen(), {}

    def step(self, action):
        self._left -= 1
        self._sum += float(self.np_random.normal()) + int(action)
        return self._seen(), self._sum, self._left == 0, False, {}

    def _seen(self):
        return np.array([self._left, self._sum])


class SavedDice(Dice):
    """The same with snapshots."""

    def save_state(self):
        return pickle.dumps((self._left, self._sum, self.np_random))

    def load_state(self, state):
        self._left, self._sum, self.np_random = pickle.loads(state)


class Chance(gym.Env):
    """Random from the system: no state can be reached a second time."""

    observation_space = gym.spaces.Box(0, 255, (8,), np.uint8)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        return np.frombuffer(os.urandom(8), np.uint8), {}

    def step(self, action):
        return np.frombuffer(os.urandom(8), np.uint8), 0.0, False, False, {}


CROSS = list(product((Dice, SavedDice), (True, False), ("next_step", "same_step", "disabled")))
CASES = CROSS if IS_FULL else [case for n, case in enumerate(CROSS) if n in (0, 4, 5, 7, 8, 9)]
"""All pairs of the three, in six cases of twelve."""

NAMES = [f"{env.__name__}-{'episode seeds' if seeds else 'stream'}-{autoreset}" for env, seeds, autoreset in CASES]


def opened(env, **settings):
    return ninelives.Pool(env, N, **{"workers": 2, "start_method": "fork", **settings})


def play(pool, first, last):
    """Rows of these steps; where resets are the caller's duty they are asked for."""
    rows = []
    for t in range(first, last):
        rows.append(pool.step((np.arange(N) + t) % 3))
        over = np.flatnonzero(rows[-1].terminated)
        if pool.options.autoreset is ninelives.Autoreset.DISABLED and len(over):
            rows.append(pool.reset(slots=over.tolist()))
    return rows


def assert_same(rows, wanted):
    for mine, theirs in zip(rows, wanted, strict=True):
        for name in FIELDS:
            np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name))


def carried(state):
    """As through a file."""
    return pickle.loads(pickle.dumps(state))


def by_step(pool, last):
    """Rows of each step up to this one."""
    return [play(pool, t, t + 1) for t in range(last)]


@pytest.mark.parametrize(("env", "seed_episodes", "autoreset"), CASES, ids=NAMES)
def test_a_new_pool_goes_on_from_any_step_as_the_old_one_would_have(env, seed_episodes, autoreset):
    """A chain of pools, each resumed from the checkpoint of the one before, a step later, beside a run without any."""
    settings = {"seed_episodes": seed_episodes, "autoreset": autoreset}
    with opened(env, **settings) as pool:
        pool.reset(seed=5)
        wanted = by_step(pool, CHAIN + BEYOND)
    with opened(env, **settings) as pool:
        pool.reset(seed=5)
        play(pool, 0, 1)
        state = carried(pool.checkpoint())
    for first in range(1, CHAIN):
        with opened(env, workers=1 + first % 3, **settings) as pool:
            resumed, last = pool.resume(state), wanted[first - 1][-1]
            if len(last) == N:
                assert_same([resumed], [last])
            assert_same(play(pool, first, first + 1), wanted[first])
            state = carried(pool.checkpoint())
            for step in range(first + 1, first + BEYOND):
                assert_same(play(pool, step, step + 1), wanted[step])


@pytest.mark.parametrize("env", [Dice, SavedDice], ids=["recipe", "snapshot"])
@pytest.mark.parametrize("seed_episodes", [True, False], ids=["episode-seeds", "stream"])
def test_a_resumed_pool_heals(env, seed_episodes):
    with opened(env, seed_episodes=seed_episodes) as pool:
        pool.reset(seed=5)
        play(pool, 0, 7)
        state, wanted = carried(pool.checkpoint()), play(pool, 7, 30)
    with opened(env, seed_episodes=seed_episodes) as pool:
        pool.resume(state)
        rows = []
        for t in range(7, 30):
            if t % 5 == 2:
                os.kill(pool.worker_pids[t % 2], signal.SIGKILL)
            rows += play(pool, t, t + 1)
    assert_same(rows, wanted)


@pytest.mark.parametrize("env", [Dice, SavedDice], ids=["recipe", "snapshot"])
def test_workers_may_die_while_a_pool_is_saved_and_while_it_is_resumed(env):
    with opened(env) as pool:
        pool.reset(seed=5)
        play(pool, 0, 7)
        for pid in pool.worker_pids:
            os.kill(pid, signal.SIGKILL)
        state, wanted = carried(pool.checkpoint()), play(pool, 7, 20)
    assert all(record.state is not None for record in state.slots)
    with opened(env) as pool:
        for pid in pool.worker_pids:
            os.kill(pid, signal.SIGKILL)
        pool.resume(state)
        assert_same(play(pool, 7, 20), wanted)


def test_the_time_and_return_of_an_episode_go_on():
    with opened(Dice) as pool:
        pool.reset(seed=5)
        play(pool, 0, 1)
        state = pool.checkpoint()
        wanted = [batch.episodes for batch in play(pool, 1, 8)]
    with opened(Dice) as pool:
        pool.resume(state)
        seen = [batch.episodes for batch in play(pool, 1, 8)]
    for mine, theirs in zip(seen, wanted, strict=True):
        np.testing.assert_array_equal(mine.returns, theirs.returns)
        np.testing.assert_array_equal(mine.lengths, theirs.lengths)
        assert (mine.times_s < 60).all()


def test_what_cannot_be_brought_back_begins_a_new_episode_behind_a_masked_row():
    with opened(Chance, workers=4) as pool:
        pool.reset(seed=5)
        play(pool, 0, 2)
        os.kill(pool.worker_pids[1], signal.SIGKILL)
        while pool.step(np.zeros(N, np.int64)).valid.all():
            pass
        state = carried(pool.checkpoint())
    assert [record.state is None for record in state.slots] == [False, True, False, False]
    with opened(Chance) as pool:
        pool.resume(state)
        with pytest.warns(ninelives.NinelivesWarning) as said:
            first, *rows = play(pool, 0, 5)
    texts = sorted(str(warning.message) for warning in said)
    assert [text.partition(". ")[0] for text in texts] == [
        "slot 1 begins a new episode in the resumed run: no state was saved (its worker was being replaced)",
        "slots 0, 2, 3 begin new episodes in the resumed run: their replays gave other rows",
    ]
    assert not first.valid.any()
    assert all(batch.valid.all() for batch in rows)
    assert all(record.begun == 1 for record in state.slots)


@pytest.mark.parametrize("env", [Dice, SavedDice])
@pytest.mark.parametrize(("before", "now"), [("cut", "cut"), ("raise", "raise"), ("cut", "heal"), ("heal", "cut")])
def test_a_pool_that_does_not_replay_begins_new_episodes_where_it_is_resumed_and_says_so(env, before, now):
    with opened(env, on_fault=before) as pool:
        pool.reset(seed=5)
        play(pool, 0, 3)
        state = carried(pool.checkpoint())
    with opened(env, on_fault=now) as pool:
        pool.resume(state)
        if before == "cut" and now == "heal" and env is SavedDice:
            assert all(batch.valid.all() for batch in play(pool, 3, 12)), "its snapshots serve a pool that heals"
            return
        with pytest.warns(ninelives.NinelivesWarning, match="slots 0, 1, 2, 3 begin new episodes .* is not 'heal'"):
            first, *rows = play(pool, 3, 12)
    assert not first.valid.any()
    assert not first.reward.any()
    assert all(batch.valid.all() for batch in rows)


def test_the_new_episodes_of_a_resumed_pool_are_the_same_every_time():
    with opened(Dice, on_fault="cut") as pool:
        pool.reset(seed=5)
        play(pool, 0, 3)
        state = carried(pool.checkpoint())
    followed = []
    for _ in range(2):
        with opened(Dice, on_fault="cut") as pool:
            pool.resume(state)
            with pytest.warns(ninelives.NinelivesWarning, match="begin new episodes"):
                followed.append(play(pool, 3, 12))
    assert_same(*followed)


def test_what_does_not_fit_is_refused():
    with opened(Dice) as pool:
        with pytest.raises(ninelives.UsageError, match=r"reset\(\) before checkpoint"):
            pool.checkpoint()
        pool.reset(seed=5)
        state = pool.checkpoint()
        with pytest.raises(ninelives.UsageError, match=r"takes the place of the first reset"):
            pool.resume(state)
        pool.send(np.zeros(N, np.int64))
        with pytest.raises(ninelives.UsageError, match=r"recv\(\) before checkpoint"):
            pool.checkpoint()
    with ninelives.Pool(Dice, 2, workers=1) as pool, pytest.raises(ninelives.CheckpointError, match="num_envs=4"):
        pool.resume(state)
    with (
        opened(Dice, autoreset="same_step") as pool,
        pytest.raises(ninelives.CheckpointError, match="autoreset='next_step', this one has 'same_step'"),
    ):
        pool.resume(state)
    with opened("CartPole-v1") as pool, pytest.raises(ninelives.CheckpointError, match="other spaces"):
        pool.resume(state)
