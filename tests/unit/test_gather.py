"""Rows of the slab to a batch: what the learner gets, may keep, and must not see."""

import os

import numpy as np
import pytest
from gymnasium import spaces

from missing import require_module
from ninelives import Autoreset, Fault
from ninelives.pool.data.gather import Gatherer
from ninelives.spec.data import DataSpec
from ninelives.spec.phase import Attention
from ninelives.spec.plan import make_plan
from ninelives.transport.control import Control, control_layout
from ninelives.transport.mailbox import TO_PARENT, Mailbox
from ninelives.transport.segment import memory_file

SLOTS = 3
BOX = spaces.Box(-99, 99, (2,), np.float32)
FAULT = Fault("crashed", "killed by SIGSEGV", (1,), 0, 1, "step")


class Slab:
    """Memory as workers leave it."""

    def __init__(self, observation=BOX, infos=None, autoreset=Autoreset.NEXT_STEP, copy=True):
        self.control = Control(bytearray(control_layout(1, SLOTS).nbytes), 1, SLOTS)
        self.mail = Mailbox(memory_file("mail"), SLOTS)
        data = DataSpec.of(observation, spaces.Discrete(2), infos or {}, autoreset, SLOTS)
        self.arrays = data.layout.views(bytearray(data.layout.nbytes))
        self.gatherer = Gatherer(data, self.arrays, self.control, self.mail, SLOTS, copy)
        for name, array in self.arrays.items():
            if name.startswith("obs:"):
                array[...] = np.arange(SLOTS).reshape(SLOTS, *[1] * (array.ndim - 1))
        self.control.reward[:] = [1, 2, 3]
        self.control.truncated[:] = [False, False, True]

    def tell(self, slot, info, objects=None, **more):
        letter = {"info": info, "objects": objects or {}, **more}
        self.control.mail_bytes[slot] = self.mail.put(slot, TO_PARENT, letter)

    def careful(self, slots, masked, silent=None, faults=None, attention=Attention.MAIL | Attention.ENDED):
        masked = np.array(masked)
        silent = masked if silent is None else np.array(silent)
        return self.gatherer.careful_batch(np.array(slots), attention, masked, silent, faults or {})


@pytest.fixture
def slab_of():
    made = []

    def make(*args, **settings):
        made.append(Slab(*args, **settings))
        return made[-1]

    yield make
    for slab in made:
        os.close(slab.mail.fd)


@pytest.fixture
def slab(slab_of):
    return slab_of()


def test_a_batch_of_everybody_holds_every_row_in_order(slab):
    batch = slab.gatherer.full_batch(Attention.NONE)
    assert batch.slots.tolist() == [0, 1, 2]
    assert batch.obs.tolist() == [[0, 0], [1, 1], [2, 2]]
    assert batch.reward.tolist() == [1, 2, 3]
    assert batch.truncated.tolist() == [False, False, True]
    assert batch.valid.all()
    assert batch.infos == {}
    assert (len(batch), len(batch.episodes)) == (3, 0)


@pytest.mark.parametrize("size", [1, 2047, 2048, 2049, 4096, 7056, 28_224])
def test_rows_of_every_size_are_copied_whole(slab_of, size):
    slab = slab_of(spaces.Box(0, 255, (size,), np.uint8))
    rows = np.random.default_rng(size).integers(0, 255, (SLOTS, size), np.uint8)
    slab.arrays["obs:."][...] = rows
    np.testing.assert_array_equal(slab.gatherer.full_batch(Attention.NONE).obs, rows)
    np.testing.assert_array_equal(slab.gatherer.partial_batch(np.array([2, 0]), Attention.NONE).obs, rows[[2, 0]])


@pytest.mark.parametrize("observation", [BOX, spaces.Dict({"a": BOX, "b": spaces.Tuple([BOX])})])
@pytest.mark.parametrize("attention", [Attention.NONE, Attention.MAIL | Attention.ENDED])
def test_a_batch_that_is_kept_does_not_change_with_the_next_step(slab_of, observation, attention):
    slab = slab_of(observation)
    batch = slab.gatherer.full_batch(attention)
    for array in [*slab.arrays.values(), slab.control.reward, slab.control.terminated, slab.control.truncated]:
        array[...] = 1
    rows = [batch.obs] if observation is BOX else [batch.obs["a"], batch.obs["b"][0]]
    assert all(row.tolist() == [[0, 0], [1, 1], [2, 2]] for row in rows)
    assert batch.reward.tolist() == [1, 2, 3]
    assert batch.truncated.tolist() == [False, False, True]


def test_without_copies_the_batch_is_the_memory_itself(slab_of):
    slab = slab_of(copy=False)
    batch = slab.gatherer.full_batch(Attention.NONE)
    assert np.shares_memory(batch.obs, slab.arrays["obs:."])
    assert np.shares_memory(batch.reward, slab.control.reward)


def test_some_slots_come_in_the_order_they_were_ready(slab):
    batch = slab.gatherer.partial_batch(np.array([2, 0]), Attention.NONE)
    assert batch.slots.tolist() == [2, 0]
    assert batch.obs.tolist() == [[2, 2], [0, 0]]
    assert batch.reward.tolist() == [3, 1]
    assert batch.truncated.tolist() == [True, False]


def test_changing_a_batch_does_not_change_the_pool(slab):
    for batch in (slab.gatherer.full_batch(Attention.NONE), slab.gatherer.partial_batch(np.arange(3), Attention.NONE)):
        batch.obs[...], batch.valid[...], batch.reward[...] = 77, False, 77
    again = slab.gatherer.full_batch(Attention.NONE)
    assert again.obs.max() == 2
    assert again.valid.all()


@pytest.mark.parametrize("way", ["everybody", "some", "careful"])
def test_ended_episodes_are_told_with_return_length_and_time(slab, way):
    slab.control.terminated[0] = True
    slab.control.episode_return[:] = [10, 0, 30]
    slab.control.episode_length[:] = [5, 0, 7]
    slab.control.episode_time_s[:] = [0.5, 0, 0.7]
    slots, nobody = np.array([2, 1, 0]), np.zeros(3, bool)
    batch = {
        "everybody": lambda: slab.gatherer.full_batch(Attention.ENDED),
        "some": lambda: slab.gatherer.partial_batch(slots, Attention.ENDED),
        "careful": lambda: slab.gatherer.careful_batch(slots, Attention.ENDED, nobody, nobody, {}),
    }[way]()
    ended = batch.episodes
    assert dict(zip(ended.slots.tolist(), ended.returns.tolist(), strict=True)) == {0: 10, 2: 30}
    assert dict(zip(ended.slots.tolist(), ended.lengths.tolist(), strict=True)) == {0: 5, 2: 7}
    assert dict(zip(ended.slots.tolist(), ended.times_s.tolist(), strict=True)) == {0: 0.5, 2: 0.7}


# ---- infos -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["everybody", "some"])
def test_infos_are_merged_by_row(slab, way):
    slab.tell(1, {"score": 7})
    batch = (
        slab.gatherer.full_batch(Attention.MAIL)
        if way == "everybody"
        else slab.gatherer.partial_batch(np.array([2, 1]), Attention.MAIL)
    )
    row = batch.slots.tolist().index(1)
    assert batch.infos["score"][row] == 7
    assert batch.infos["_score"].tolist() == [slot == 1 for slot in batch.slots]


def test_an_old_letter_is_not_read_when_nobody_says_there_is_mail(slab):
    slab.tell(1, {"score": 7})
    assert slab.gatherer.full_batch(Attention.ENDED).infos == {}


@pytest.mark.parametrize(("dtype", "value"), [("<f8", 2.5), ("<i4", 3), ("|b1", True)])
def test_declared_infos_come_from_the_slab_in_their_own_type(slab_of, dtype, value):
    slab = slab_of(infos={"fuel": dtype})
    slab.arrays["info:fuel"][:] = value
    slab.arrays["has:fuel"][:] = [True, False, True]
    infos = slab.gatherer.full_batch(Attention.MAIL).infos
    assert infos["fuel"].dtype == np.dtype(dtype)
    assert infos["fuel"].tolist() == [value, type(value)(0), value]
    assert infos["_fuel"].tolist() == [True, False, True]


def test_declared_infos_that_nobody_gave_are_absent(slab_of):
    slab = slab_of(infos={"fuel": "<f8"})
    assert slab.gatherer.full_batch(Attention.MAIL).infos == {}


@pytest.mark.parametrize("observation", [BOX, spaces.Dict({"plane": BOX, "said": spaces.Text(9)})])
def test_the_last_observation_of_an_episode_comes_with_its_info(slab_of, observation):
    slab = slab_of(observation, autoreset=Autoreset.SAME_STEP)
    name = "." if observation is BOX else "plane"
    slab.arrays[f"final:{name}"][1] = 55
    objects = {} if observation is BOX else {"said": "hello"}
    slab.tell(1, {"level": 2}, objects, final_info={"why": "time"}, final_objects={"said": "bye"})
    infos = slab.gatherer.full_batch(Attention.MAIL).infos
    slab.arrays[f"final:{name}"][1] = 66
    final = infos["final_obs"][1]
    assert (final if observation is BOX else final["plane"]).tolist() == [55, 55]
    assert observation is BOX or final["said"] == "bye"
    assert infos["final_info"]["why"][1] == "time"
    assert infos["level"][1] == 2
    assert infos["_final_obs"].tolist() == [False, True, False]


def test_observations_that_travel_by_mail_are_kept_until_the_next_one(slab_of):
    slab = slab_of(spaces.Dict({"plane": BOX, "said": spaces.Text(9)}))
    for slot, word in enumerate(("one", "two", "three")):
        slab.tell(slot, {}, {"said": word})
    assert slab.gatherer.full_batch(Attention.MAIL).obs["said"] == ("one", "two", "three")
    slab.tell(2, {}, {"said": "four"})
    batch = slab.careful([2, 1], masked=[False, True])
    assert batch.obs["said"] == ("four", "two"), "a masked row has the last thing that was said"


# ---- masked rows -----------------------------------------------------------------------------------------------------


def test_masked_rows_carry_no_reward_no_end_and_no_info(slab):
    slab.control.terminated[:] = True
    slab.tell(0, {"score": 1})
    slab.tell(1, {"score": 2})
    batch = slab.careful([0, 1, 2], masked=[False, True, True])
    assert batch.valid.tolist() == [True, False, False]
    assert batch.reward.tolist() == [1, 0, 0]
    assert batch.terminated.tolist() == [True, False, False]
    assert batch.truncated.tolist() == [False, False, False]
    assert batch.infos["_score"].tolist() == [True, False, False]
    assert batch.episodes.slots.tolist() == [0]


def test_the_fault_row_is_truncated_and_names_its_fault(slab):
    batch = slab.careful([2, 1], masked=[False, True], faults={1: FAULT})
    assert batch.truncated.tolist() == [True, True]
    assert batch.infos["fault"].tolist() == [None, FAULT]
    assert batch.infos["_fault"].tolist() == [False, True]
    assert batch.episodes.slots.tolist() == [2], "a cut episode has no return"


def test_faults_are_told_even_if_nobody_has_mail(slab):
    batch = slab.careful([1], masked=[True], faults={1: FAULT}, attention=Attention.NONE)
    assert batch.infos["fault"][0] is FAULT


def test_a_fresh_row_is_masked_and_still_has_its_resets_info(slab):
    slab.tell(1, {"level": 4})
    batch = slab.careful([1], masked=[True], silent=[False])
    assert not batch.valid[0]
    assert batch.infos["level"][0] == 4


def test_a_torn_row_becomes_zeros_and_its_neighbours_stay(slab):
    slab.control.torn[1] = 1
    slab.gatherer.blank(1)
    assert slab.gatherer.full_batch(Attention.NONE).obs.tolist() == [[0, 0], [0, 0], [2, 2]]
    assert not slab.control.torn[1]


@pytest.mark.parametrize("twin", ["1", "0"])
def test_some_rows_of_a_nested_observation_are_those_slots_and_may_be_kept(monkeypatch, slab_of, twin):
    monkeypatch.setenv("NINELIVES_NATIVE", twin)
    nested = spaces.Dict(
        {"picture": spaces.Box(0, 9, (2, 2), np.uint8), "more": spaces.Tuple([spaces.Discrete(9), BOX])}
    )
    slab = slab_of(nested)
    slab.control.episode_return[:] = [10, 20, 30]
    batch = slab.gatherer.partial_batch(np.array([2, 0]), Attention.ENDED)
    for array in slab.arrays.values():
        array[...] = 0
    assert batch.obs["picture"].tolist() == [[[2, 2], [2, 2]], [[0, 0], [0, 0]]]
    assert [part.tolist() for part in batch.obs["more"]] == [[2, 0], [[2.0, 2.0], [0.0, 0.0]]]
    assert (batch.reward.tolist(), batch.valid.tolist()) == ([3.0, 1.0], [True, True])
    assert (batch.episodes.slots.tolist(), batch.episodes.returns.tolist()) == ([2], [30.0])


def test_a_flat_dict_keeps_its_keys_and_what_belongs_to_them(slab_of):
    slab = slab_of(spaces.Dict({"vector": BOX, "number": spaces.Discrete(9)}))
    for batch in (
        slab.gatherer.full_batch(Attention.NONE),
        slab.gatherer.partial_batch(np.array([0, 1, 2]), Attention.NONE),
    ):
        assert {key: rows.tolist() for key, rows in batch.obs.items()} == {
            "number": [0, 1, 2], "vector": [[0, 0], [1, 1], [2, 2]],
        }  # fmt: skip
        assert list(batch.obs) == ["number", "vector"], "in the order of the space"


@pytest.mark.parametrize(("space", "obs"), [(spaces.Dict({}), {}), (spaces.Tuple([]), ())])
def test_an_observation_without_parts_is_an_empty_one(slab_of, space, obs):
    slab = slab_of(space)
    for batch in (
        slab.gatherer.full_batch(Attention.NONE),
        slab.gatherer.partial_batch(np.array([0, 1, 2]), Attention.NONE),
    ):
        assert batch.obs == obs
        assert (batch.reward.tolist(), batch.slots.tolist(), batch.infos) == ([1, 2, 3], [0, 1, 2], {})


# ---- slots of groups -------------------------------------------------------------------------------------------------

PLANS = {"equal groups": make_plan(6, 3, 1, 2), "groups of different sizes": make_plan(7, 3, 1, None)}


@pytest.mark.parametrize("name", PLANS)
def test_slots_come_in_the_order_of_their_groups(slab, name):
    plan = PLANS[name]
    wanted = [*plan.group_slots[2], *plan.group_slots[0]]
    assert slab.gatherer.slots_of([2, 0], plan).tolist() == wanted


@pytest.mark.parametrize(("groups", "error"), [([3], IndexError), ([-1], IndexError), ((1,), TypeError)])
def test_groups_that_do_not_exist_are_refused_by_native_code(groups, error):
    native = require_module("ninelives.pool.data._batch")
    with pytest.raises(error):
        native.slots_of(groups, PLANS["equal groups"].even_groups)
