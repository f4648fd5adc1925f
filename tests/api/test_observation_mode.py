"""Gymnasium's ``observation_mode``: the same spaces, rows and refusals as its own vector environments."""

import os
import signal
from contextlib import closing

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from tiny_envs import Seeded, assert_same

import ninelives
from ninelives.events import SlotHealed
from ninelives.testing import RecordingSink


class Fitted(Seeded):
    """Its observation space is given; what it sees is drawn from it by the episode's generator."""

    def __init__(self, space, actions=3, stray=0.0):
        self.observation_space, self.action_space = space, spaces.Discrete(actions)
        self.stray = stray

    def see(self):
        self.observation_space.seed(int(self.np_random.integers(1 << 30)))
        seen = self.observation_space.sample()
        return seen + np.float32(self.stray) if self.stray else seen


def box(high, length=2, dtype=np.float32):
    return spaces.Box(-high, high, (length,), dtype)


def functions(*given, **kwargs):
    return [lambda space=space: Fitted(space, **kwargs) for space in given]


BOXES = functions(box(1), box(5), box(2))
DIFFERENT = {
    "boxes": BOXES,
    "numbers": functions(spaces.Discrete(3), spaces.Discrete(9, start=4), spaces.Discrete(5)),
    "structures": functions(
        *(
            spaces.Dict(eye=spaces.MultiDiscrete([n, n + 1]), body=spaces.Tuple((box(n), spaces.MultiBinary(2))))
            for n in (3, 5, 7)
        )
    ),
    "words": functions(*[spaces.Dict(word=spaces.Text(4), eye=box(n)) for n in (1, 2, 3)]),
}
BATCHED, SINGLE = spaces.Box(-9, 9, (3, 2), np.float32), box(9)


def assert_equal_to(theirs, ours):
    assert ours.observation_space == theirs.observation_space
    assert ours.single_observation_space == theirs.single_observation_space
    assert ours.action_space == theirs.action_space
    assert_same(ours.reset(seed=5), theirs.reset(seed=5))
    for i in range(20):
        assert_same(*(envs.step(np.zeros(3, np.int64)) for envs in (ours, theirs)), f"step {i}")


@pytest.mark.parametrize("workers", [1, 2, None])
@pytest.mark.parametrize("name", DIFFERENT)
def test_different_spaces_are_batched_as_by_sync_vector_env(name, workers):
    given = DIFFERENT[name]
    with (
        closing(SyncVectorEnv(given, observation_mode="different")) as theirs,
        closing(ninelives.VectorEnv(given, workers=workers, observation_mode="different")) as ours,
    ):
        assert_equal_to(theirs, ours)


@pytest.mark.parametrize("mode", ["different", (BATCHED, SINGLE)], ids=["different", "own spaces"])
def test_every_mode_gives_what_async_vector_env_gives(mode):
    with (
        # Without its shared memory, for which the standard library leaves a process behind.
        closing(AsyncVectorEnv(BOXES, shared_memory=False, context="fork", observation_mode=mode)) as theirs,
        closing(ninelives.VectorEnv(BOXES, workers=2, observation_mode=mode)) as ours,
    ):
        assert_equal_to(theirs, ours)


def test_make_vec_takes_it_where_gymnasium_does():
    mode = (spaces.Box(-9, 9, (2, 4), np.float32), spaces.Box(-9, 9, (4,), np.float32))
    with closing(ninelives.make_vec("CartPole-v1", 2, vector_kwargs={"observation_mode": mode})) as envs:
        assert (envs.observation_space, envs.single_observation_space) == mode


REFUSED = {
    "same, other bounds": ("same", BOXES),
    "different, other shapes": ("different", functions(box(1), box(1), box(1, length=3))),
    "different, other dtypes": ("different", functions(box(1), box(1), box(1, dtype=np.float64))),
    "different, other kinds": ("different", functions(box(1), box(1), spaces.Discrete(3))),
    "different, other actions": ("different", functions(box(1), box(1)) + functions(box(1), actions=4)),
    "own spaces that do not fit": ((BATCHED, box(9, length=4)), BOXES),
}


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("name", REFUSED)
def test_spaces_that_do_not_fit_the_mode_are_refused_as_by_gymnasium(name, workers):
    mode, given = REFUSED[name]
    with pytest.raises((AssertionError, RuntimeError, TypeError, ValueError)):
        SyncVectorEnv(given, observation_mode=mode)
    with pytest.raises(ninelives.SpacesError, match="has other spaces than") as caught:
        ninelives.VectorEnv(given, workers=workers, observation_mode=mode)
    assert ("observation_mode" in caught.value.fault.refusal) is isinstance(mode, tuple)


@pytest.mark.parametrize(
    "mode", ["equal", None, ("same", "different"), (BATCHED,), SINGLE, spaces.Tuple((BATCHED, SINGLE))]
)
def test_other_modes_are_refused_before_a_process_starts(mode):
    with pytest.raises(ninelives.ConfigError, match="allowed: 'same', 'different', or a tuple of two spaces"):
        ninelives.VectorEnv(BOXES, observation_mode=mode)


def test_spares_are_refused_because_they_cannot_know_whose_place_they_take():
    with pytest.raises(ninelives.ConfigError, match="spares=1 does not fit slots with different spaces"):
        ninelives.VectorEnv(Seeded, 2, observation_mode="different", spares=1)


def test_each_slot_is_checked_against_its_own_bounds():
    given = functions(box(1), box(50)) + functions(box(1), stray=2.5)
    settings = {"observation_mode": "different", "check": "bounds", "on_fault": "raise"}
    with (
        closing(ninelives.VectorEnv(given, workers=1, **settings)) as envs,
        pytest.raises(ninelives.BadDataError, match="lies outside the declared bounds") as caught,
    ):
        envs.reset(seed=1)
    assert caught.value.fault.slots == (2,)


def test_a_slot_with_its_own_space_heals():
    sink = RecordingSink()
    with (
        closing(SyncVectorEnv(BOXES, observation_mode="different")) as theirs,
        closing(ninelives.VectorEnv(BOXES, workers=3, observation_mode="different", sinks=[sink])) as ours,
    ):
        assert_same(ours.reset(seed=5), theirs.reset(seed=5))
        for i in range(12):
            if i == 6:
                os.kill(ours.pool.worker_pids[1], signal.SIGKILL)
            assert_same(*(envs.step(np.zeros(3, np.int64)) for envs in (ours, theirs)), f"step {i}")
    assert [event.slots for event in sink.of(SlotHealed)] == [(1,)]
