"""Whatever its space, a value goes to the environment and comes back unchanged."""

import copy
from contextlib import closing

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv
from tiny_envs import Echo, assert_same

import ninelives

NUM_ENVS = 3

ARRAYS = {
    "float16": spaces.Box(-1, 1, (2,), np.float16),
    "float32": spaces.Box(-np.inf, np.inf, (2, 3), np.float32),
    "float64 scalar": spaces.Box(-5, 5, (), np.float64),
    "uint8 image": spaces.Box(0, 255, (4, 4, 3), np.uint8),
    "int8": spaces.Box(-128, 127, (5,), np.int8),
    "uint16": spaces.Box(0, 60_000, (1,), np.uint16),
    "int64": spaces.Box(-(2**40), 2**40, (2,), np.int64),
    "empty": spaces.Box(-1, 1, (0,), np.float32),
    "discrete": spaces.Discrete(4),
    "discrete from -2": spaces.Discrete(4, start=-2),
    "multi discrete": spaces.MultiDiscrete([3, 5], start=[1, -4]),
    "multi discrete table": spaces.MultiDiscrete([[3, 5], [2, 2]], dtype=np.int32),
    "multi binary": spaces.MultiBinary((2, 2)),
}
OBJECTS = {
    "text": spaces.Text(8),
    "sequence": spaces.Sequence(spaces.Box(-1, 1, (2,), np.float32)),
    "stacked sequence": spaces.Sequence(spaces.Box(-1, 1, (2,), np.float32), stack=True),
    "graph": spaces.Graph(spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(3)),
    "one of": spaces.OneOf((spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32))),
}


def grown(rng, leaves, depth=0):
    """A random tree of Dict and Tuple over these leaves, at least one level and at most three."""
    if depth == 3 or (depth > 0 and rng.random() < 0.3):
        return copy.deepcopy(leaves[rng.integers(len(leaves))])
    children = [grown(rng, leaves, depth + 1) for _ in range(rng.integers(2, 4))]
    return spaces.Tuple(children) if rng.random() < 0.5 else spaces.Dict(dict(zip("abc", children, strict=False)))


TREES = [grown(np.random.default_rng(seed), list(ARRAYS.values())) for seed in range(4)]
MIXED = [*OBJECTS.values(), ARRAYS["discrete from -2"], ARRAYS["uint8 image"], ARRAYS["float64 scalar"]]
MIXED_TREES = [grown(np.random.default_rng(seed), MIXED) for seed in range(4)]


def assert_travels(space, beside):
    """The environment checks the actions it gets and shows them; its own samples come out as from Gymnasium."""
    spec = ninelives.EnvSpec(Echo, {"space": space, "beside": beside})
    theirs = SyncVectorEnv([lambda: Echo(space, beside)] * NUM_ENVS)
    with closing(ninelives.VectorEnv(spec, NUM_ENVS, workers=1, on_fault="raise")) as ours:
        assert ours.single_action_space == space
        assert ours.observation_space == theirs.observation_space
        assert_same(ours.reset(seed=1), theirs.reset(seed=1), "first observation")
        ours.action_space.seed(2)
        for i in range(5):
            actions = ours.action_space.sample()
            obs, *_ = ours.step(actions)
            assert_same(obs["echo"] if beside else obs, actions, f"action {i}")


@pytest.mark.parametrize("name", ARRAYS | OBJECTS)
def test_a_plain_space_travels_unchanged(name):
    assert_travels((ARRAYS | OBJECTS)[name], beside=False)


@pytest.mark.parametrize("space", TREES, ids=range(len(TREES)))
def test_nested_arrays_travel_unchanged(space):
    assert_travels(space, beside=True)


@pytest.mark.parametrize("space", MIXED_TREES, ids=range(len(MIXED_TREES)))
def test_arrays_and_objects_nested_in_each_other_travel_unchanged(space):
    assert_travels(space, beside=True)


@pytest.mark.parametrize("name", ["text", "discrete from -2"])
def test_spaces_travel_on_the_pure_python_path_too(name, monkeypatch):
    monkeypatch.setenv("NINELIVES_NATIVE", "0")
    assert_travels((ARRAYS | OBJECTS)[name], beside=True)


@pytest.mark.parametrize("words", [("a", "b"), ("a", "b", "c", "d")], ids=["too few", "too many"])
def test_the_wrong_number_of_actions_that_are_no_arrays_is_refused(words):
    spec = ninelives.EnvSpec(Echo, {"space": spaces.Dict(word=spaces.Text(8)), "beside": True})
    with closing(ninelives.VectorEnv(spec, NUM_ENVS, workers=1)) as envs:
        envs.reset(seed=1)
        with pytest.raises(ninelives.UsageError, match=f"{len(words)} actions in 'word' for 3 environments"):
            envs.step({"word": words})
        np.testing.assert_array_equal(envs.step({"word": ("a", "b", "c")})[0]["count"], 1)
