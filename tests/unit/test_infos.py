import numpy as np
import pytest
from gymnasium.vector import VectorEnv
from hypothesis import assume, given
from hypothesis import strategies as st

from rookery.spec.infos import merge_infos

SIZE = 4
NUMBERS = st.one_of(st.integers(-99, 99), st.booleans(), st.floats(-9, 9), st.integers(-99, 99).map(np.int32))
ARRAYS = st.one_of(st.integers(-9, 9), st.floats(-9, 9)).map(lambda x: np.array([x, x + 1]))
OBJECTS = st.one_of(st.none(), st.text(max_size=3), st.lists(st.integers(), max_size=2), st.tuples(st.integers()))
VALUES = st.one_of(NUMBERS, ARRAYS, OBJECTS, st.integers(0, 9).map(np.float32))
FLAT = {"a": VALUES, "b": VALUES, "final_obs": st.one_of(ARRAYS, st.fixed_dictionaries({"left": ARRAYS}))}
NESTED = st.fixed_dictionaries({}, optional=FLAT)
INFOS = st.fixed_dictionaries({}, optional={**FLAT, "final_info": NESTED, "deep": NESTED})
ROWS = st.lists(st.tuples(st.integers(0, SIZE - 1), INFOS), max_size=SIZE, unique_by=lambda pair: pair[0])


def as_gymnasium_does(rows):
    """Gymnasium's own merge, or None where it gives up on rows that do not fit each other."""
    vector = VectorEnv()
    vector.num_envs = SIZE
    merged = {}
    try:
        for row, info in rows:
            merged = vector._add_info(merged, info, row)
    except Exception:
        return None
    return merged


def assert_equal_infos(ours, theirs):
    assert list(ours) == list(theirs)
    for key, value in theirs.items():
        if isinstance(value, dict):
            assert_equal_infos(ours[key], value)
            continue
        assert ours[key].dtype == value.dtype
        assert ours[key].shape == value.shape
        for a, b in zip(ours[key], value, strict=True):
            assert type(a) is type(b)
            np.testing.assert_equal(a, b)


@given(ROWS)
def test_merged_infos_are_those_of_gymnasium(rows):
    theirs = as_gymnasium_does(rows)
    assume(theirs is not None)
    assert_equal_infos(merge_infos(rows, SIZE), theirs)


@pytest.mark.parametrize("value", [3, 2.5, True, np.float32(1.5), np.array([1, 2]), "word", None, {"deep": 1}])
def test_every_kind_of_value_reaches_its_row_with_a_mask(value):
    merged = merge_infos([(2, {"key": value})], SIZE)
    assert merged["_key"].tolist() == [False, False, True, False]
    held = {"deep": merged["key"]["deep"][2]} if isinstance(value, dict) else merged["key"][2]
    np.testing.assert_equal(held, value)


def test_final_observations_stay_whole_even_if_they_are_dictionaries():
    final = {"pixels": np.zeros(2), "speed": 1.0}
    merged = merge_infos([(1, {"final_obs": final})], SIZE)
    assert merged["final_obs"].dtype == object
    assert merged["final_obs"][1] is final


def test_nothing_said_is_nothing_merged():
    assert merge_infos([], SIZE) == {}
    assert merge_infos([(0, {}), (1, {})], SIZE) == {}
