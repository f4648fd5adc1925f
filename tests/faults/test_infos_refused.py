"""Infos that cannot or must not be loaded by the parent are bad data of their own slot."""

from __future__ import annotations

import collections
import datetime
import enum
import pathlib
import threading

import numpy as np
import pytest
from scenes import FAULT_STEP, FELLOW, GUILTY, STEPS, pool_of

import ninelives
from ninelives import current_slot
from ninelives.testing import CountingEnv


class Colour(enum.Enum):
    """A type of a user's own."""

    RED = 1


class Touching:
    """Creates a file where it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return pathlib.Path.touch, (pathlib.Path(self.path),)


class Talking(CountingEnv):
    """Says something in its third step, in one slot."""

    def __init__(self, make, episode_steps):
        super().__init__(episode_steps)
        self._make, self._slot, self._steps = make, current_slot().slot, 0

    def step(self, action):
        *answer, _ = super().step(action)
        self._steps += 1
        says = self._slot == GUILTY and self._steps == FAULT_STEP
        return *answer, {"word": self._make()} if says else {}


def batches_of(make, episode_steps=0, **settings):
    with pool_of(lambda: Talking(make, episode_steps), start_method="fork", **settings) as pool:
        pool.reset(seed=1)
        return [pool.step(np.zeros(4, np.int64)) for _ in range(STEPS)]


@pytest.mark.parametrize(("autoreset", "episode_steps"), [("next_step", 0), ("same_step", FAULT_STEP)])
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (threading.Lock, "_thread.lock"),
        (lambda: {"deep": [Colour.RED]}, f"{__name__}.Colour"),
        (lambda: np.array([Colour.RED], object), f"{__name__}.Colour"),
        (lambda: len, "builtins.len"),
    ],
    ids=["unpicklable", "nested", "in an array", "function"],
)
def test_info_that_is_no_plain_data_is_a_fault_of_its_slot_alone(make, name, autoreset, episode_steps):
    batches = batches_of(make, episode_steps, autoreset=autoreset)
    cut = batches[FAULT_STEP - 1]
    assert cut.valid.tolist() == [True, False, True, True]
    fault = cut.infos["fault"][GUILTY]
    assert fault.kind == "bad_data"
    assert f"info['word'] cannot be sent: {name} is not plain data" in fault.summary
    assert f"info_types=['{name}']" in fault.summary
    assert all(batch.valid[FELLOW] for batch in batches)
    assert batches[FAULT_STEP + 1].valid.all()


def test_info_that_would_run_code_in_the_users_process_runs_none(tmp_path):
    mark = tmp_path / "loaded"
    batches = batches_of(lambda: Touching(str(mark)))
    assert not batches[FAULT_STEP - 1].valid[GUILTY]
    assert not mark.exists()


def test_the_error_of_a_pool_that_raises_names_key_and_type():
    with pytest.raises(ninelives.BadDataError, match=r"info\['word'\] cannot be sent: _thread.lock"):
        batches_of(threading.Lock, on_fault="raise")


PLAIN = [
    {"a": [1, 2.5, None, True, "text", b"bytes", (1, {2}), frozenset({3}), 1j, range(3)]},
    collections.OrderedDict(a=collections.deque([1])),
    [datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), datetime.timedelta(1), pathlib.Path("x")],
    np.float32(1.5),
    np.datetime64("2026-01-01"),
    np.array(["text", 3], object),
    np.zeros(2, [("x", "f4"), ("y", "i2")]),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.dtype("f4"),
    np.float32,
]


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: type(value).__name__)
def test_plain_data_arrives_as_it_was(value):
    batch = batches_of(lambda: [value])[FAULT_STEP - 1]
    assert batch.valid.all()
    assert repr(batch.infos["word"][GUILTY]) == repr([value])


@pytest.mark.parametrize("types", [[f"{__name__}.Colour"], "any"], ids=["named", "any"])
def test_types_that_the_user_allows_arrive(types):
    batch = batches_of(lambda: Colour.RED, info_types=types)[FAULT_STEP - 1]
    assert batch.valid.all()
    assert batch.infos["word"][GUILTY] is Colour.RED


def test_one_string_is_no_list_of_types():
    with pytest.raises(ninelives.ConfigError, match=r"info_types='Colour' must be a list"):
        ninelives.PoolOptions(info_types="Colour")
