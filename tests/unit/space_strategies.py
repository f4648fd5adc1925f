"""Gymnasium spaces and samples of them, for Hypothesis."""

import numpy as np
from gymnasium import spaces
from hypothesis import strategies as st

SHAPES = st.lists(st.integers(1, 3), max_size=3).map(tuple)
SEEDS = st.integers(0, 2**31 - 1)

boxes = st.one_of(
    st.builds(lambda shape, dtype: spaces.Box(-5, 5, shape, dtype), SHAPES, st.sampled_from([np.float32, np.float64])),
    st.builds(lambda shape, dtype: spaces.Box(0, 250, shape, dtype), SHAPES, st.sampled_from([np.uint8, np.int64])),
)
discretes = st.builds(lambda n, start: spaces.Discrete(n, start=start), st.integers(1, 9), st.integers(-3, 3))
multi_discretes = st.builds(spaces.MultiDiscrete, st.lists(st.integers(1, 5), min_size=1, max_size=4))
multi_binaries = st.builds(spaces.MultiBinary, st.integers(1, 5))
array_spaces = st.one_of(boxes, discretes, multi_discretes, multi_binaries)
texts = st.just(spaces.Text(5))


def nested(leaf):
    """Spaces of any depth of Dict and Tuple over ``leaf``."""
    keys = st.text("abcx_", min_size=1, max_size=3)
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.dictionaries(keys, inner, min_size=1, max_size=3).map(spaces.Dict),
            st.lists(inner, min_size=1, max_size=3).map(spaces.Tuple),
        ),
        max_leaves=6,
    )


nested_arrays = nested(array_spaces)
nested_anything = nested(st.one_of(array_spaces, texts))


def sample(space, seed):
    """One value of a space, the same for the same seed."""
    space.seed(seed)
    return space.sample()


def assert_equal_values(left, right):
    """Equal in structure, shape, dtype and content."""
    if isinstance(left, dict):
        assert list(left) == list(right)
        for key in left:
            assert_equal_values(left[key], right[key])
    elif isinstance(left, tuple):
        assert len(left) == len(right)
        for a, b in zip(left, right, strict=True):
            assert_equal_values(a, b)
    elif isinstance(left, str):
        assert left == right
    else:
        assert np.asarray(left).dtype == np.asarray(right).dtype
        np.testing.assert_array_equal(left, right, strict=True)
