"""A policy's spaces are read back from a checkpoint unchanged."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from ninelives.errors import CheckpointError
from ninelives.train.saving import container, space_tree

SPACES = [
    spaces.Box(0, 255, (4, 3), np.uint8),
    spaces.Box(np.array([-1.0, -np.inf]), np.array([np.inf, 2.5]), dtype=np.float64),
    spaces.Discrete(5, start=-2),
    spaces.MultiDiscrete([[2, 3], [4, 5]]),
    spaces.MultiDiscrete([2, 3], start=[1, -1]),
    spaces.MultiBinary(4),
    spaces.MultiBinary([2, 3]),
    spaces.Dict({"z": spaces.Discrete(2), "a": spaces.Tuple([spaces.Box(0.0, 1.0, (2,)), spaces.MultiBinary(1)])}),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_a_space_is_read_back(space, tmp_path):
    (tmp_path / "one").write_bytes(container.packed({}, space_tree.plain(space)))
    back = space_tree.space_of(container.read(tmp_path / "one").tree)
    assert back == space
    if isinstance(space, spaces.Dict):
        assert list(back.spaces) == list(space.spaces)
    space.seed(1), back.seed(1)
    assert str(back.sample()) == str(space.sample())


def test_an_unsupported_space_is_refused():
    with pytest.raises(TypeError, match="cannot hold the space Text"):
        space_tree.plain(spaces.Dict({"a": spaces.Text(3)}))


def test_an_unknown_kind_of_space_is_refused():
    with pytest.raises(CheckpointError, match="does not know: 'Graph'"):
        space_tree.space_of({"kind": "Graph"})
