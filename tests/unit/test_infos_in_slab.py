"""Infos of numbers through the slab: from a worker's rows to a batch, exactly what Gymnasium makes of them."""

import os

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_infos import assert_equal_infos

from missing import require_module
from ninelives import Autoreset
from ninelives.pool.data.gather import Gatherer
from ninelives.spec.data import DataSpec
from ninelives.spec.info_schema import INFO_BYTES, MAX_SCHEMAS, InfoSchema
from ninelives.spec.infos import add_info
from ninelives.spec.phase import Attention
from ninelives.transport.control import Control, control_layout
from ninelives.transport.mailbox import SCHEMAS, Mailbox
from ninelives.transport.segment import memory_file
from ninelives.worker.infos import PyPacker
from ninelives.worker.rows import SlotRows

SLOTS = 3
NUMBERS = [
    st.integers(-99, 99),
    st.booleans(),
    st.floats(allow_nan=False),
    st.booleans().map(np.bool_),
    st.integers(0, 200).map(np.uint8),
    st.integers(-99, 99).map(np.int32),
    st.floats(-9, 9, width=16).map(np.float16),
    st.floats(-9, 9, width=32).map(np.float32),
    st.floats(-9, 9).map(np.float64),
    st.complex_numbers(max_magnitude=9).map(np.complex128),
    st.floats(-9, 9).map(lambda x: np.array([x, x + 1])),
    st.integers(-9, 9).map(lambda x: np.array([[x, 2], [3, 4]], np.int16).T),
    st.booleans().map(lambda x: np.array([x, True])),
    st.integers(-9, 9).map(np.array),
    st.just(np.zeros((0, 2), np.float32)),
]
OTHERS = [
    st.none(),
    st.text(max_size=3),
    st.integers(2**63, 2**65),
    st.just(np.array([1.0, 2.0], ">f8")),
    st.just(np.longdouble("1.5")),
    st.just(np.timedelta64(3, "s")),
    st.just(np.zeros(INFO_BYTES + 1, np.uint8)),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.sampled_from("pq"), st.one_of(st.integers(0, 9), st.floats(0, 1)), max_size=2),
]
KEYS = ("a", "b", "reward/forward", "ключ")


class Worker:
    """The rows of some slots, and the parent's batch of them."""

    def __init__(self, wanted=None):
        self.control = Control(bytearray(control_layout(1, SLOTS).nbytes), 1, SLOTS)
        self.mail = Mailbox(memory_file("mail"), SLOTS)
        box = spaces.Box(-1, 1, (2,), np.float32)
        data = DataSpec.of(box, spaces.Discrete(2), {}, Autoreset.NEXT_STEP, SLOTS, wanted)
        self.arrays = data.layout.views(bytearray(data.layout.nbytes))
        self.data = data
        self.start()
        self.gatherer = Gatherer(data, self.arrays, self.control, self.mail, SLOTS, True)

    def start(self):
        """A new generation: nothing is learned."""
        self.rows = [SlotRows(i, self.control, self.mail, self.data, self.arrays, "nan") for i in range(SLOTS)]

    def answer(self, infos):
        """Every slot's info of one step; returns attention bits."""
        attention = 0
        for slot, info in enumerate(infos):
            self.control.mail_bytes[slot] = 0
            attention |= self.rows[slot].put_info(info)
        return attention

    def batch(self, infos):
        attention = self.answer(infos)
        assert self.gatherer.reader.find_unreadable(None) == []
        return self.gatherer.full_batch(attention).infos


@pytest.fixture(params=["native", "python"])
def worker_of(request, monkeypatch):
    if request.param == "native":
        require_module("ninelives.worker._infos")
    monkeypatch.setenv("NINELIVES_NATIVE", "1" if request.param == "native" else "0")
    made = []

    def make(**settings):
        made.append(Worker(**settings))
        return made[-1]

    yield make
    for worker in made:
        os.close(worker.mail.fd)


def as_ever(infos):
    """What became of these infos when all of them travelled by mail."""
    merged = {}
    for row, info in enumerate(infos):
        add_info(merged, info, row, SLOTS)
    return merged


def as_gymnasium_does(infos):
    vector = VectorEnv()
    vector.num_envs = SLOTS
    merged = {}
    for row, info in enumerate(infos):
        merged = vector._add_info(merged, info, row)
    return merged


@st.composite
def agreeing_steps(draw):
    """Steps of all slots; in one step all values of a key are of one kind, which may change with every step."""
    steps = []
    for _ in range(draw(st.integers(1, 5))):
        kinds = {key: draw(st.sampled_from([*NUMBERS, *NUMBERS, *OTHERS[:2]])) for key in KEYS}
        steps.append([draw(st.fixed_dictionaries({}, optional=kinds)) for _ in range(SLOTS)])
    return steps


@st.composite
def any_steps(draw):
    """Steps whose infos agree about nothing."""
    kinds = {key: draw(st.lists(st.sampled_from([*NUMBERS, *OTHERS]), min_size=1, max_size=3)) for key in KEYS}
    info = st.fixed_dictionaries({}, optional={key: st.one_of(choice) for key, choice in kinds.items()})
    return draw(st.lists(st.lists(info, min_size=SLOTS, max_size=SLOTS), min_size=1, max_size=6))


RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@RELAXED
@given(steps=agreeing_steps())
def test_batches_have_the_infos_of_gymnasium(worker_of, steps):
    worker = worker_of()
    for infos in steps:
        assert_equal_infos(worker.batch(infos), as_gymnasium_does(infos))


@RELAXED
@given(steps=any_steps(), dies_before=st.integers(0, 6))
def test_the_way_that_infos_take_never_shows(worker_of, steps, dies_before):
    worker = worker_of()
    for number, infos in enumerate(steps):
        if number == dies_before:
            worker.start()
        assert_equal_infos(worker.batch(infos), as_ever(infos))


@RELAXED
@given(steps=any_steps(), chosen=st.lists(st.integers(0, SLOTS - 1), min_size=1, unique=True))
def test_batches_of_some_slots_have_the_infos_of_these(worker_of, steps, chosen):
    worker = worker_of()
    for infos in steps:
        attention, slots = worker.answer(infos), np.array(chosen)
        assert worker.gatherer.reader.find_unreadable(slots) == []
        expected = {}
        for row, slot in enumerate(chosen):
            add_info(expected, infos[slot], row, len(chosen))
        assert_equal_infos(worker.gatherer.partial_batch(slots, attention).infos, expected)


@RELAXED
@given(steps=any_steps(), wanted=st.sets(st.sampled_from(KEYS)))
def test_only_wanted_keys_arrive(worker_of, steps, wanted):
    worker = worker_of(wanted=wanted)
    for infos in steps:
        reduced = [{key: value for key, value in info.items() if key in wanted} for info in infos]
        assert_equal_infos(worker.batch(infos), as_ever(reduced))


def test_numbers_leave_the_mailbox_alone_from_the_first_step_on(worker_of):
    worker = worker_of()
    for step in range(3):
        assert worker.answer([{"x": float(step), "done": np.True_, "at": np.arange(3)}] * SLOTS) == Attention.INFO
        assert not worker.control.mail_bytes.any()


def test_a_key_that_comes_later_is_learned_and_a_word_among_numbers_goes_by_mail(worker_of):
    worker = worker_of()
    assert worker.answer([{"x": 1.0}] * SLOTS) == Attention.INFO
    assert worker.answer([{"x": 1.0, "late": 2}] * SLOTS) == Attention.INFO
    assert worker.answer([{"x": 1.0, "late": "two"}] * SLOTS) == Attention.MAIL
    assert worker.answer([{"x": 1.0}] * SLOTS) == Attention.INFO


def test_a_slot_learns_a_limited_number_of_schemas(worker_of):
    worker = worker_of()
    steps = [[{f"key{number}": number}] * SLOTS for number in range(MAX_SCHEMAS + 3)]
    bits = [worker.answer(infos) for infos in steps]
    assert bits == [Attention.INFO] * MAX_SCHEMAS + [Attention.MAIL] * 3
    for infos in steps:
        assert_equal_infos(worker.batch(infos), as_ever(infos))


def test_infos_that_nobody_wants_are_not_written(worker_of):
    worker = worker_of(wanted=())
    assert worker.answer([{"x": 1.0, "words": "many"}] * SLOTS) == Attention.NONE
    assert not worker.arrays["infos"].any()
    assert not worker.control.mail_bytes.any()


def test_a_type_that_a_pickle_would_change_keeps_its_name(worker_of):
    (value, *_) = worker_of().batch([{"x": np.longlong(3)}] * SLOTS)["x"]
    assert type(value) is np.longlong


def test_columns_are_the_users_own(worker_of):
    worker = worker_of()
    infos = [{"x": float(slot), "at": np.arange(2)} for slot in range(SLOTS)]
    first = worker.batch(infos)
    first["x"][:], first["_x"][:], first["at"][:] = -1, False, -1
    assert_equal_infos(worker.batch(infos), as_ever(infos))


def test_both_packers_write_the_same_bytes():
    native = require_module("ninelives.worker._infos")
    info = {"i": -5, "f": 2.5, "b": True, "s": np.float32(1.5), "n": np.bool_(True), "a": np.arange(6).reshape(2, 3)}
    schema = InfoSchema.learned(info)
    written = []
    for make in (native.Packer, PyPacker):
        place, word = np.zeros(INFO_BYTES, np.uint8), np.zeros(1, np.uint64)
        packer = make(place, word, None)
        packer.learn(schema)
        assert packer.pack(info) == Attention.INFO
        written.append((place.tobytes(), int(word[0])))
    assert written[0] == written[1]
    assert written[0][1] == schema.number


@pytest.mark.parametrize(
    "description",
    [
        (("x", "float", "d", ()), ("x", "float", "d", ())),
        (("_x", "float", "d", ()),),
        (("final_obs", "float", "d", ()),),
        (("x", "float", "q", ()),),
        (("x", "object", "O", ()),),
        (("x", "array", "O", ()),),
        (("x", "array", "dd", ()),),
        (("x", "scalar", "d", (2,)),),
        (("x", "array", "d", (-1,)),),
        (("x", "array", "d", (1 << 62, 1 << 62)),),
        (("x", "array", "B", (INFO_BYTES + 1,)),),
        (("x", "array", "B", (1,) * 9),),
        tuple((f"x{n}", "bool", "?", ()) for n in range(INFO_BYTES // 8 + 1)),
        ((1, "float", "d", ()),),
    ],
)
def test_schemas_that_no_worker_announces_are_refused(description):
    with pytest.raises(ValueError, match=r"do not fit|is no info|has an (unknown|impossible)"):
        InfoSchema.of(description)


@pytest.mark.parametrize("announced", [None, [1, 2], "words", [[["x", "array", "O", ()]]], {"x": 1}])
def test_a_schema_that_was_not_announced_is_a_fault_of_its_slot(worker_of, announced):
    worker = worker_of()
    worker.answer([{"x": 1.0}] * SLOTS)
    nbytes = 0 if announced is None else worker.mail.put_plain(1, SCHEMAS, announced)
    worker.control.schema_bytes[1] = nbytes
    worker.control.info_schema[1] = 12345
    assert worker.gatherer.reader.find_unreadable(None) == [1]
    worker.control.info_schema[1] = InfoSchema.learned({"x": 1.0}).number
    assert worker.gatherer.reader.find_unreadable(None) == []


@pytest.mark.parametrize("nbytes", [-1, 7, 1 << 62])
def test_a_list_of_schemas_with_an_impossible_length_is_not_read(worker_of, nbytes):
    worker = worker_of()
    worker.answer([{"x": 1.0}] * SLOTS)
    worker.control.schema_bytes[:] = nbytes
    assert worker.gatherer.reader.find_unreadable(None) == [0, 1, 2]
