"""What is handed out may be kept (copy=True), or is the shared memory itself (copy=False)."""

import copy
from contextlib import closing

import numpy as np
import pytest
from tiny_envs import Nested, OneBuffer, Seeded, assert_same

import ninelives

NUM_ENVS = 3


def opened(env, **settings):
    return closing(ninelives.VectorEnv(env, NUM_ENVS, workers=2, **settings))


@pytest.mark.parametrize("env", [OneBuffer, Nested])
def test_every_answer_may_be_kept_by_default(env):
    with opened(env) as envs:
        kept = [envs.reset(seed=3)]
        as_they_were = [copy.deepcopy(kept[0])]
        for _ in range(10):
            kept.append(envs.step(envs.action_space.sample()))
            as_they_were.append(copy.deepcopy(kept[-1]))
        envs.reset(seed=99)
    assert_same(kept, as_they_were)


def test_writing_into_an_answer_does_not_change_the_next_one():
    with opened(Seeded) as envs, opened(Seeded) as clean:
        envs.reset(seed=3)
        clean.reset(seed=3)
        for _ in range(10):
            answer, wanted = (each.step(np.zeros(NUM_ENVS, np.int64)) for each in (envs, clean))
            assert_same(answer, wanted)
            for array in answer[:4]:
                array[...] = 1


def test_views_are_the_same_memory_in_every_step_and_hold_the_latest_values():
    with opened(Nested, copy=False) as envs, opened(Nested) as copies:
        envs.reset(seed=3)
        copies.reset(seed=3)
        envs.action_space.seed(1)
        first, *_ = envs.step(actions := envs.action_space.sample())
        copies.step(actions)
        for _ in range(10):
            actions = envs.action_space.sample()
            answer, wanted = envs.step(actions), copies.step(actions)
            assert_same(answer, wanted)
            assert_same(first, wanted[0], "the first view")
            assert np.shares_memory(first["camera"], answer[0]["camera"])


def test_views_outlive_the_pool():
    with opened(Seeded, copy=False) as envs:
        envs.reset(seed=3)
        obs, *_ = envs.step(np.zeros(NUM_ENVS, np.int64))
        last = obs.copy()
    np.testing.assert_array_equal(obs, last)
