"""Both twins of the worker's loop play the same scripts: the same rows, statuses, messages and counters.

What those should be is in ``test_loop_steps.py`` and ``test_loop_faults.py``, also over both.
"""

import collections
import threading

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_twins import BOX, MODES, TWINS, Worker, obs, scripted

from ninelives.spec.phase import Status

PICTURE = np.arange(1600, dtype=np.uint8).reshape(40, 40)
SPACES = {
    "float32": (
        BOX,
        [obs(1, 2), np.array([1, 2.5]), [1, 2], (3.0, 4.0), obs(1, 2, 3, 4)[::2], obs(1, 1).astype(">f4")],
    ),
    "float16": (spaces.Box(-9, 9, (2,), np.float16), [np.array([1, 2], np.float16), np.array([1, np.nan], np.float16)]),
    "big endian": (spaces.Box(-9, 9, (2,), np.dtype(">f4")), [obs(1, 2), np.array([3, 4], ">f4"), obs(np.nan, 1)]),
    "number": (spaces.Box(-9, 9, (), np.float32), [np.float32(1), 2.5, np.array(3, np.float32), obs(1), np.nan]),
    "bytes": (
        spaces.Box(0, 255, (2,), np.uint8),
        [
            np.array([1, 2], np.uint8),
            bytearray(b"ab"),
            b"ab",
            memoryview(b"ab"),
            np.array([1, 2]),
            np.array([True, False]),
        ],
    ),
    "matrix": (
        spaces.Box(0, 255, (2, 2), np.uint8),
        [
            np.eye(2, dtype=np.uint8),
            np.asfortranarray(np.arange(4, dtype=np.uint8).reshape(2, 2)),
            np.zeros(4, np.uint8),
        ],
    ),
    "discrete": (spaces.Discrete(5), [1, np.int64(2), np.int32(3), True, 4.0, 2**70, np.array(1), np.array([1]), None]),
    "small discrete": (spaces.Discrete(5, dtype=np.int8), [1, np.int8(2), np.int64(3), 400]),
    "binary": (spaces.MultiBinary(2), [np.array([0, 1], np.int8), [True, False], np.array([0, 1])]),
    "nested": (
        spaces.Dict({"a": BOX, "b": spaces.Tuple([spaces.Discrete(3)])}),
        [{"a": obs(1, 2), "b": (1,)}, {"b": [2], "a": [3, 4], "more": 1}, {"a": obs(1, 2)}, obs(1, 2)],
    ),
    "picture and words": (
        spaces.Dict({"picture": spaces.Box(0, 255, (40, 40), np.uint8), "words": BOX, "lives": spaces.Discrete(4)}),
        [
            {"picture": PICTURE, "words": obs(1, 2), "lives": 3},
            {"lives": np.int64(2), "picture": PICTURE, "words": obs(3, 4)},
            {"picture": PICTURE + 1, "words": obs(np.nan, 2), "lives": 1},
            {"picture": PICTURE + 1, "words": obs(1, 2, 3), "lives": 1},
            {"picture": PICTURE + 1, "words": obs(1, 2), "lives": 2**70},
            {"picture": PICTURE.T, "words": obs(5, 6), "lives": 1},
            {"picture": PICTURE.astype(np.int64), "words": obs(5, 6), "lives": 1},
            {"picture": PICTURE + 1, "lives": 1},
            collections.OrderedDict(words=obs(7, 8), lives=0, picture=PICTURE),
            (PICTURE, obs(1, 2), 3),
        ],
    ),
    "pair": (
        spaces.Tuple([BOX, spaces.Dict({"deep": spaces.Box(-9, 9, (3,), np.float64)})]),
        [
            (obs(1, 2), {"deep": np.arange(3.0)}),
            [obs(3, 4), {"deep": np.arange(3.0)}],
            (obs(1, 2),),
            (obs(5, 6), {"deep": np.arange(3.0)}, "more"),
            (obs(5, 6), {"deep": [1.0, 2.0, np.nan]}),
            (obs(5, 6), {"shallow": np.arange(3.0)}),
        ],
    ),
    "text": (spaces.Text(5), ["word", "", 5, None]),
}
REWARDS = [
    1.0,
    2,
    True,
    np.float32(0.5),
    np.array(1.5),
    np.float64(-2),
    float("nan"),
    float("inf"),
    None,
    "1.5",
    [1.0],
    2**2000,
]
FLAGS = [True, False, np.True_, 1, 0, None, "", np.array([1, 2])]
INFOS = [
    {},
    {"a": 1},
    {"fuel": 2},
    {"fuel": 2, "a": "x"},
    {"fuel": "full"},
    None,
    [],
    collections.OrderedDict(b=1),
    {"cannot travel": threading.Lock()},
]
ODD = [ValueError("broke"), KeyError("k"), None, (1, 2, 3), [1, 2, 3, 4, 5]]


@st.composite
def scripts(draw):
    """A space, settings, and what one environment does in its resets and steps."""
    observation, values = SPACES[draw(st.sampled_from(list(SPACES)))]
    value = st.sampled_from(values)
    plain = st.just(values[0])
    # Mostly harmless, so that scripts continue for a while after something odd.
    step = st.one_of(
        st.tuples(plain, st.just(1.0), st.booleans(), st.just(False), st.just({})),
        st.tuples(value, st.just(1.0), st.just(False), st.booleans(), st.sampled_from(INFOS)),
        st.tuples(plain, st.sampled_from(REWARDS), st.sampled_from(FLAGS), st.sampled_from(FLAGS), st.just({"a": 2})),
        st.sampled_from(ODD),
    )
    reset = st.one_of(st.tuples(plain, st.just({})), st.tuples(value, st.sampled_from(INFOS)), st.sampled_from(ODD))
    return (
        {
            "observation": observation,
            "autoreset": draw(st.sampled_from(MODES)),
            "check": draw(st.sampled_from(["shape", "nan", "bounds"])),
            "infos": draw(st.sampled_from([{}, {"fuel": "f8"}])),
        },
        draw(st.lists(reset, min_size=8, max_size=8)),
        draw(st.lists(step, min_size=6, max_size=6)),
    )


def shown_by(twin, scratch, settings, resets, steps):
    """Every row of a script. Like the pool, request a reset after every fault."""
    make, made = scripted(resets, steps)
    shown = []
    with Worker(twin, scratch, [make], **settings) as worker:
        (row,) = worker.reset(seeds=[1])
        shown.append(row)
        for number in range(len(steps)):
            (row,) = worker.step(number) if row["status"] == Status.OK else worker.reset()
            shown.append(row)
    return shown, [(env.actions, env.reset_calls, env.closed) for env in made]


@settings(max_examples=100)
@given(scripts())
def test_both_loops_show_the_same_whatever_an_environment_does(tmp_path_factory, script):
    scratch = tmp_path_factory.getbasetemp() / "twins"
    native, python = (shown_by(twin, scratch, *script) for twin in TWINS)
    np.testing.assert_equal(native, python)


@pytest.mark.parametrize("kind", ["float32", "discrete", "matrix", "nested", "picture and words", "pair"])
def test_the_native_loop_writes_plain_rows_of_any_structure_itself(tmp_path, kind):
    observation, values = SPACES[kind]
    make, _ = scripted([(values[0], {})], [])
    with Worker("native", tmp_path, [make], observation=observation) as worker:
        assert worker.loop.write(0, values[0])
        assert not worker.loop.write(0, None)


@pytest.mark.parametrize("kind", SPACES)
def test_both_loops_take_and_refuse_the_same_observations(tmp_path, kind):
    """All of them, independent of what Hypothesis draws."""
    observation, values = SPACES[kind]
    for value in values:
        script = {"observation": observation}, [(values[0], {})] * 3, [(value, 1.0, False, False, {})]
        native, python = (shown_by(twin, tmp_path, *script) for twin in TWINS)
        np.testing.assert_equal(native, python)
