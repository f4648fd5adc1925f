"""Infos of a vector environment are those of Gymnasium's SyncVectorEnv, whatever the environments put into them."""

import os
import signal
from contextlib import closing
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import ninelives

SLOTS, STEPS = 4, 120
MODES = [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP]


class Talker(gymnasium.Env):
    """Says something else in each step: numbers mostly, keys that come and go, and now and then anything."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._length = 0
        return np.zeros(2, np.float32), {"first": True, "start": np.float32(self.np_random.random())}

    def step(self, action):
        self._length += 1
        draw = self.np_random
        info = {"x": draw.random(), "lives": int(draw.integers(5)), "pair": draw.random(2), "hit": np.bool_(action)}
        if draw.random() < 0.3:
            info["late"] = draw.integers(9, dtype=np.int32)
        if draw.random() < 0.1:
            info["note"] = "words"
        if draw.random() < 0.1:
            info["terms"] = {"forward": draw.random(), "count": int(draw.integers(9))}
        over = draw.random() < 0.1
        return np.full(2, draw.random(), np.float32), draw.random(), bool(over), False, info


def assert_equal_infos(ours, theirs):
    assert list(ours) == list(theirs)
    for key, value in theirs.items():
        if isinstance(value, dict):
            assert_equal_infos(ours[key], value)
            continue
        assert ours[key].dtype == value.dtype, key
        assert [type(one) for one in ours[key]] == [type(one) for one in value], key
        np.testing.assert_equal(list(ours[key]), list(value))


@pytest.mark.parametrize("native", ["1", "0"])
@pytest.mark.parametrize("mode", MODES)
def test_infos_are_those_of_the_synchronous_vector_env(monkeypatch, mode, native):
    monkeypatch.setenv("NINELIVES_NATIVE", native)
    theirs = SyncVectorEnv([Talker] * SLOTS, autoreset_mode=mode)
    with closing(ninelives.VectorEnv(Talker, SLOTS, workers=2, autoreset_mode=mode)) as ours:
        assert_equal_infos(ours.reset(seed=3)[1], theirs.reset(seed=3)[1])
        for step in range(STEPS):
            actions = np.arange(SLOTS) % 2 if step % 2 else np.zeros(SLOTS, np.int64)
            assert_equal_infos(ours.step(actions)[4], theirs.step(actions)[4])


@pytest.mark.parametrize("native", ["1", "0"])
def test_a_killed_worker_leaves_no_trace_in_the_infos(monkeypatch, native):
    monkeypatch.setenv("NINELIVES_NATIVE", native)
    theirs, actions = SyncVectorEnv([Talker] * SLOTS), np.ones(SLOTS, np.int64)
    with closing(ninelives.VectorEnv(Talker, SLOTS, workers=2)) as ours:
        assert_equal_infos(ours.reset(seed=5)[1], theirs.reset(seed=5)[1])
        for step in range(STEPS // 2):
            if step % 20 == 10:
                os.kill(ours.pool.worker_pids[step // 20 % 2], signal.SIGKILL)
            assert_equal_infos(ours.step(actions)[4], theirs.step(actions)[4])
        healed = [event for event in ours.pool.events if isinstance(event, ninelives.events.SlotHealed)]
    assert len(healed) >= SLOTS


def test_disabled_autoreset_has_the_same_infos():
    mode = AutoresetMode.DISABLED
    theirs = SyncVectorEnv([Talker] * SLOTS, autoreset_mode=mode)
    with closing(ninelives.VectorEnv(Talker, SLOTS, workers=2, autoreset_mode=mode)) as ours:
        assert_equal_infos(ours.reset(seed=3)[1], theirs.reset(seed=3)[1])
        for _ in range(STEPS):
            ended = [view.step(np.ones(SLOTS, np.int64)) for view in (ours, theirs)]
            assert_equal_infos(ended[0][4], ended[1][4])
            if ended[1][2].any():
                options = {"reset_mask": ended[1][2]}
                assert_equal_infos(ours.reset(options=dict(options))[1], theirs.reset(options=dict(options))[1])


@pytest.mark.parametrize("native", ["1", "0"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wanted", [("late", "terms", "x"), None])
def test_a_view_gets_the_keys_that_it_wants_and_no_others(monkeypatch, mode, wanted, native):
    monkeypatch.setenv("NINELIVES_NATIVE", native)
    keys, actions = wanted or (), np.zeros(SLOTS, np.int64)
    theirs = SyncVectorEnv([partial(Reduced, keys)] * SLOTS, autoreset_mode=mode)
    with closing(ninelives.make_vec(Talker, SLOTS, vector_kwargs={"autoreset_mode": mode, "infos": wanted})) as ours:
        assert_equal_infos(ours.reset(seed=3)[1], theirs.reset(seed=3)[1])
        for _ in range(STEPS // 4):
            assert_equal_infos(ours.step(actions)[4], theirs.step(actions)[4])


class Reduced(gymnasium.Wrapper):
    """Gives the infos of ``Talker`` with only some keys."""

    def __init__(self, keys):
        super().__init__(Talker())
        self._keys = keys

    def reset(self, **arguments):
        obs, info = self.env.reset(**arguments)
        return obs, {key: info[key] for key in info if key in self._keys}

    def step(self, action):
        *row, info = self.env.step(action)
        return *row, {key: info[key] for key in info if key in self._keys}
