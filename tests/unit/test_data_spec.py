from gymnasium import spaces
from hypothesis import given
from space_strategies import nested_anything

from ninelives import Autoreset
from ninelives.spec.data import DataSpec


def names(data, prefix):
    return [field.name.partition(":")[2] for field in data.layout.fields if field.name.startswith(f"{prefix}:")]


@given(nested_anything, nested_anything)
def test_parent_and_worker_lay_out_the_same_spaces_alike(observation, action):
    ours, theirs = (DataSpec.of(observation, action, {"fuel": "f8"}, Autoreset.SAME_STEP, 3) for _ in range(2))
    assert ours.layout == theirs.layout
    assert ours.layout.digest == theirs.layout.digest
    assert all(field.shape[0] == 3 for field in ours.layout.fields), "a row per slot"


def test_room_for_last_observations_is_taken_only_where_they_are_needed():
    observation = spaces.Dict({"a": spaces.Discrete(2), "b": spaces.MultiBinary(3)})
    for mode in Autoreset:
        data = DataSpec.of(observation, spaces.Discrete(2), {}, mode, 2)
        assert names(data, "obs") == ["a", "b"]
        assert names(data, "final") == (["a", "b"] if mode is Autoreset.SAME_STEP else [])


def test_declared_infos_have_a_column_and_a_mask():
    data = DataSpec.of(spaces.Discrete(2), spaces.Discrete(2), {"fuel": "<f4", "lives": "<i8"}, Autoreset.NEXT_STEP, 2)
    fields = {field.name: field.dtype for field in data.layout.fields}
    assert (fields["info:fuel"], fields["info:lives"]) == ("<f4", "<i8")
    assert fields["has:fuel"] == fields["has:lives"] == "?"


def test_other_spaces_settings_or_sizes_have_other_digests():
    def digest(observation=spaces.Discrete(2), infos=None, mode=Autoreset.NEXT_STEP, slots=2):  # noqa: B008
        return DataSpec.of(observation, spaces.Discrete(2), infos or {}, mode, slots).layout.digest

    others = [
        digest(spaces.MultiBinary(2)),
        digest(infos={"fuel": "f8"}),
        digest(mode=Autoreset.SAME_STEP),
        digest(slots=3),
    ]
    assert len({digest(), *others}) == 5
