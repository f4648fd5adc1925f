import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from space_strategies import SEEDS, assert_equal_values, nested_anything, nested_arrays, sample

from ninelives.spec.arrays import BadValueError, assemble, checked_leaf, fields, leaves, split, tree_of
from ninelives.spec.layout import Layout

ROWS = 3


def rows_of(space):
    """The tree of a space and its zeroed arrays of three rows."""
    node = tree_of(space)
    layout = Layout.of(fields(node, "obs", ROWS))
    return node, layout.views(bytearray(layout.nbytes))


def write_row(node, arrays, row, value, check="nan"):
    """Write a value into one row; returns what has no array."""
    objects = {}
    for leaf, part in split(node, value):
        if leaf.dtype is None:
            objects[leaf.path] = part
        else:
            arrays[f"obs:{leaf.name}"][row] = checked_leaf(leaf, part, check)
    return objects


@given(nested_anything, SEEDS)
def test_a_value_written_and_assembled_again_is_the_same_value(space, seed):
    node, arrays = rows_of(space)
    value = sample(space, seed)
    objects = write_row(node, arrays, 1, value, check="bounds")
    again = assemble(node, lambda leaf: arrays[f"obs:{leaf.name}"][1] if leaf.dtype else objects[leaf.path])
    assert_equal_values(again, value)


@given(nested_arrays, SEEDS)
def test_a_row_is_written_without_touching_its_neighbours(space, seed):
    node, arrays = rows_of(space)
    for array in arrays.values():
        array[...] = 3
    write_row(node, arrays, 1, sample(space, seed))
    for array in arrays.values():
        assert (array[[0, 2]] == 3).all()


@given(nested_anything)
def test_leaves_have_different_names(space):
    names = [leaf.name for leaf in leaves(tree_of(space))]
    assert len(names) == len(set(names))


def test_keys_with_slashes_do_not_share_an_array_with_nested_keys():
    box = spaces.Box(0, 9, (1,), np.float64)
    space = spaces.Dict({"a": spaces.Dict({"b": box}), "a/b": box})
    node, arrays = rows_of(space)
    value = {"a": {"b": np.array([1.0])}, "a/b": np.array([2.0])}
    write_row(node, arrays, 0, value)
    assert_equal_values(assemble(node, lambda leaf: arrays[f"obs:{leaf.name}"][0]), value)


@pytest.mark.parametrize(
    "space", [spaces.Text(4), spaces.Sequence(spaces.Discrete(3)), spaces.OneOf([spaces.Discrete(2)])]
)
def test_spaces_without_a_fixed_size_take_no_room_in_the_slab(space):
    node = tree_of(spaces.Dict({"plain": spaces.Discrete(3), "odd": space}))
    assert [field.name for field in fields(node, "obs", ROWS)] == ["obs:plain"]
    assert [leaf.name for leaf in leaves(node) if leaf.dtype is None] == ["odd"]


def deep_leaf(space):
    """A leaf with a path: messages must name where in the observation the mistake is."""
    (leaf,) = leaves(tree_of(spaces.Dict({"left": spaces.Tuple([space])})))
    return leaf


@given(st.lists(st.integers(1, 4), max_size=3).map(tuple))
def test_another_shape_is_refused_and_both_shapes_are_named(shape):
    leaf = deep_leaf(spaces.Box(-1, 1, (2, 3), np.float32))
    value = np.zeros(shape, np.float32)
    if shape == (2, 3):
        checked_leaf(leaf, value, "bounds")
        return
    with pytest.raises(BadValueError) as refusal:
        checked_leaf(leaf, value, "shape")
    assert "left/0" in str(refusal.value)
    assert str(shape) in str(refusal.value)
    assert "(2, 3)" in str(refusal.value)


@pytest.mark.parametrize(
    ("space", "value"),
    [
        (spaces.Box(0, 255, (2,), np.uint8), np.array([1.5, 2.0])),
        (spaces.Discrete(5), 2.0),
        (spaces.Box(-1, 1, (1,), np.float32), np.array([1j])),
        (spaces.Box(-1, 1, (1,), np.float32), np.array(["1"])),
        (spaces.MultiBinary(1), np.array([None])),
    ],
)
def test_another_kind_of_number_is_refused_and_both_dtypes_are_named(space, value):
    leaf = deep_leaf(space)
    with pytest.raises(BadValueError, match="left/0: dtype") as refusal:
        checked_leaf(leaf, value, "shape")
    assert str(np.asarray(value).dtype) in str(refusal.value)
    assert str(np.dtype(space.dtype)) in str(refusal.value)


@pytest.mark.parametrize(
    ("space", "value"),
    [
        (spaces.Box(-9, 9, (2,), np.float32), np.array([1.5, 2.0], np.float64)),
        (spaces.Box(-9, 9, (2,), np.float32), [1, 2]),
        (spaces.Box(-9, 9, (), np.float64), 1.25),
        (spaces.Discrete(5), np.int8(3)),
        (spaces.Discrete(5), True),
        (spaces.MultiBinary(2), [True, False]),
    ],
)
def test_numbers_of_the_same_kind_are_converted(space, value):
    leaf = deep_leaf(space)
    row = np.zeros(leaf.shape, leaf.dtype)
    row[...] = checked_leaf(leaf, value, "bounds")
    np.testing.assert_array_equal(row, np.asarray(value, space.dtype))


@given(st.integers(0, 5))
def test_nan_is_refused_wherever_it_hides_unless_only_shapes_are_checked(position):
    leaf = deep_leaf(spaces.Box(-1, 1, (2, 3), np.float32))
    value = np.zeros((2, 3))
    value.flat[position] = np.nan
    for check in ("nan", "bounds"):
        with pytest.raises(BadValueError, match="left/0: holds NaN"):
            checked_leaf(leaf, value, check)
    assert np.isnan(checked_leaf(leaf, value, "shape").flat[position])


@given(st.integers(-300, 300))
def test_bounds_are_checked_on_request_and_the_value_is_named(number):
    leaf = deep_leaf(spaces.Box(-100, 100, (3,), np.int64))
    value = np.array([0, number, 0])
    checked_leaf(leaf, value, "nan")
    if -100 <= number <= 100:
        checked_leaf(leaf, value, "bounds")
    else:
        with pytest.raises(BadValueError, match=f"left/0: value {number} "):
            checked_leaf(leaf, value, "bounds")


@pytest.mark.parametrize(
    ("space", "inside", "outside"),
    [
        (spaces.Discrete(3, start=2), [2, 4], [1, 5]),
        (spaces.MultiDiscrete([2, 3], start=[1, 0]), [[1, 0], [2, 2]], [[0, 0], [3, 0], [1, 3]]),
        (spaces.MultiBinary(2), [[0, 1]], [[2, 0], [0, -1]]),
    ],
)
def test_bounds_of_counted_spaces_follow_their_start_and_size(space, inside, outside):
    leaf = deep_leaf(space)
    for value in inside:
        checked_leaf(leaf, value, "bounds")
    for value in outside:
        with pytest.raises(BadValueError, match="bounds"):
            checked_leaf(leaf, value, "bounds")


def test_a_missing_key_is_named_together_with_the_keys_that_came():
    node = tree_of(spaces.Dict({"here": spaces.Discrete(2), "there": spaces.Discrete(2)}))
    with pytest.raises(BadValueError, match=r"'there' is missing.*'here', 'elsewhere'"):
        list(split(node, {"here": 0, "elsewhere": 1}))


@pytest.mark.parametrize(
    ("space", "value", "words"),
    [
        (spaces.Dict({"a": spaces.Discrete(2)}), [1], ["dict", "'a'", "list"]),
        (spaces.Tuple([spaces.Discrete(2)] * 2), (1, 1, 1), ["tuple of 2"]),
        (spaces.Tuple([spaces.Discrete(2)] * 2), 5, ["tuple of 2", "int"]),
    ],
)
def test_another_structure_is_refused_in_words(space, value, words):
    with pytest.raises(BadValueError) as refusal:
        list(split(tree_of(space), value))
    assert all(word in str(refusal.value) for word in words)
