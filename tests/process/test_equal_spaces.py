"""Slots of one pool have equal spaces, or the first start is refused with what differs."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import ninelives
from ninelives.events import WorkerSpawned
from ninelives.spec.equal_spaces import are_equal
from ninelives.testing import RecordingSink


class Sized(gymnasium.Env):
    """Sees as much as it is told to."""

    action_space = spaces.Discrete(2)

    def __init__(self, space):
        self.observation_space = space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {}


class Plain(spaces.Space):
    """Defines no equality, as many spaces of users."""

    def __init__(self):
        super().__init__((2,), np.float32)

    def sample(self, mask=None, probability=None):
        return np.zeros(2, np.float32)

    def contains(self, x):
        return True


NARROW, WIDE, LONG = (spaces.Box(-size, size, (length,), np.float32) for size, length in ((1, 2), (5, 2), (1, 3)))


def functions(*given):
    return [lambda space=space: Sized(space) for space in given]


@pytest.mark.parametrize("workers", [1, 3, None])
@pytest.mark.parametrize("other", [WIDE, LONG])
def test_other_spaces_are_refused_at_the_first_start_and_both_are_shown(workers, other):
    sink = RecordingSink()
    with pytest.raises(RuntimeError, match="has other spaces than") as caught:
        ninelives.VectorEnv(functions(NARROW, NARROW, other), workers=workers, sinks=[sink])
    assert isinstance(caught.value, ninelives.SpacesError)
    assert caught.value.fault.phase == "construct"
    assert str(other) in str(caught.value)
    assert "equal spaces" in caught.value.fault.advice
    assert {event.generation for event in sink.of(WorkerSpawned)} == {1}


def test_the_slots_are_named():
    with pytest.raises(ninelives.SpacesError) as caught:
        ninelives.VectorEnv(functions(NARROW, NARROW, WIDE), workers=1)
    wanted = f"slot 2 has other spaces than slot 0: its observation space is {WIDE} instead of {NARROW}"
    assert wanted in caught.value.fault.refusal
    assert caught.value.fault.culprit == 2


@pytest.mark.parametrize("workers", [1, 2])
def test_spaces_that_define_no_equality_are_not_refused(workers):
    with ninelives.Pool(lambda: Sized(Plain()), 2, workers=workers) as pool:
        assert pool.reset(seed=1).valid.all()


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (NARROW, spaces.Box(-1, 1, (2,), np.float32), True),
        (NARROW, WIDE, False),
        (NARROW, spaces.Box(-1, 1, (2,), np.float64), False),
        (spaces.Text(3), spaces.Text(4), False),
        (spaces.Discrete(3), spaces.MultiDiscrete([3]), False),
        (Plain(), Plain(), True),
        (spaces.Dict(a=Plain(), b=NARROW), spaces.Dict(a=Plain(), b=NARROW), True),
        (spaces.Dict(a=Plain(), b=NARROW), spaces.Dict(a=Plain(), b=WIDE), False),
        (spaces.Dict(a=NARROW), spaces.Dict(b=NARROW), False),
        (spaces.Tuple((Plain(), NARROW)), spaces.Tuple((Plain(), NARROW)), True),
        (spaces.Tuple((Plain(),)), spaces.Tuple((Plain(), NARROW)), False),
    ],
)
def test_equality_of_spaces(one, other, equal):
    assert are_equal(one, other) is equal
