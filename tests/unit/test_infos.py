import numpy as np
import pytest
from gymnasium.vector import VectorEnv
from hypothesis import given
from hypothesis import strategies as st

from ninelives.spec.infos import add_info

SIZE = 4
KINDS = [
    st.integers(-99, 99),
    st.booleans(),
    st.floats(-9, 9),
    st.integers(-99, 99).map(np.int32),
    st.floats(-9, 9, width=32).map(np.float32),
    st.floats(-9, 9).map(lambda x: np.array([x, x + 1])),
    st.integers(-9, 9).map(lambda x: np.array([[x]])),
    st.one_of(st.none(), st.text(max_size=3), st.lists(st.integers(), max_size=2), st.tuples(st.integers())),
]
FINAL = st.floats(-9, 9).map(lambda x: np.array([x]))


def merged_infos(rows, size):
    merged = {}
    for row, info in rows:
        add_info(merged, info, row, size)
    return merged


@st.composite
def agreeing_rows(draw):
    """Infos of some rows; wherever a key comes up, its values are of one kind."""
    flat = {key: draw(st.sampled_from(KINDS)) for key in ("a", "b")}
    flat["final_obs"] = draw(st.sampled_from([FINAL, st.fixed_dictionaries({"left": FINAL})]))
    nested = st.fixed_dictionaries({}, optional=flat)
    infos = st.fixed_dictionaries({}, optional={**flat, "final_info": nested, "deep": nested})
    rows = draw(st.lists(st.integers(0, SIZE - 1), unique=True))
    return [(row, draw(infos)) for row in rows]


def as_gymnasium_does(rows):
    """Gymnasium's own merge."""
    vector = VectorEnv()
    vector.num_envs = SIZE
    merged = {}
    for row, info in rows:
        merged = vector._add_info(merged, info, row)
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


@given(agreeing_rows())
def test_merged_infos_are_those_of_gymnasium(rows):
    assert_equal_infos(merged_infos(rows, SIZE), as_gymnasium_does(rows))


@given(st.permutations(range(SIZE)), st.lists(st.one_of(KINDS), min_size=SIZE, max_size=SIZE))
def test_environments_that_disagree_about_a_key_lose_nothing_and_raise_nothing(order, values):
    merged = merged_infos([(row, {"key": value}) for row, value in zip(order, values, strict=True)], SIZE)
    assert merged["_key"].all()
    for row, value in zip(order, values, strict=True):
        np.testing.assert_equal(merged["key"][row], value)


def test_a_dictionary_where_others_give_a_value_raises_nothing():
    for rows in ([(0, {"key": {"deep": 1}}), (1, {"key": 2})], [(1, {"key": 2}), (0, {"key": {"deep": 1}})]):
        merged = merged_infos(rows, SIZE)
        assert merged["key"]["deep"][0] == 1


@pytest.mark.parametrize("value", [3, 2.5, True, np.float32(1.5), np.array([1, 2]), "word", None, {"deep": 1}])
def test_every_kind_of_value_reaches_its_row_with_a_mask(value):
    merged = merged_infos([(2, {"key": value})], SIZE)
    assert merged["_key"].tolist() == [False, False, True, False]
    held = {"deep": merged["key"]["deep"][2]} if isinstance(value, dict) else merged["key"][2]
    np.testing.assert_equal(held, value)


def test_final_observations_stay_whole_even_if_they_are_dictionaries():
    final = {"pixels": np.zeros(2), "speed": 1.0}
    merged = merged_infos([(1, {"final_obs": final})], SIZE)
    assert merged["final_obs"].dtype == object
    assert merged["final_obs"][1] is final


def test_nothing_said_is_nothing_merged():
    assert merged_infos([], SIZE) == {}
    assert merged_infos([(0, {}), (1, {})], SIZE) == {}
