"""A memory map reads what a game holds, by name, and says at once what is wrong with it."""

import json
import struct

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninelives.errors import ConfigError, EmulatorError
from ninelives.sims.emulators.memory_map import DECIMALS, NUMBERS, TRANSFORMS, Field, MemoryMap
from ninelives.sims.emulators.ram import RamReader

WORK, FAST = 0x02000000, 0x03000000
SIZE = 0x400


class Image:
    """Two regions of memory without a machine."""

    def __init__(self):
        self.cells = {WORK: np.zeros(SIZE, np.uint8), FAST: np.zeros(SIZE, np.uint8)}

    def view(self, address, size):
        for start, cells in self.cells.items():
            if start <= address and address + size <= start + SIZE:
                view = cells[address - start : address - start + size]
                view.flags.writeable = False
                return view
        raise EmulatorError(f"{address:#x} is not mapped; mapped: work, fast")

    def regions(self):
        return (("work", WORK, SIZE), ("fast", FAST, SIZE))

    def put(self, address, data):
        start = address & 0xFF000000
        self.cells[start][address - start : address - start + len(data)] = np.frombuffer(data, np.uint8)


@pytest.fixture
def image():
    return Image()


def read(image, **words):
    return RamReader(MemoryMap.of({"it": {"address": WORK, **words}}), image).read()["it"]


@pytest.mark.parametrize(
    ("data", "words", "expected"),
    [
        (b"\xfe", {}, 254),
        (b"\xfe", {"kind": "i8"}, -2),
        (b"\x01\x80", {"kind": "u16"}, 0x8001),
        (b"\x01\x80", {"kind": "u16", "endian": "big"}, 0x0180),
        (b"\xff\xff", {"kind": "i16"}, -1),
        (b"\x78\x56\x34\x92", {"kind": "u32"}, 0x92345678),
        (b"\x78\x56\x34\x92", {"kind": "i32"}, 0x92345678 - (1 << 32)),
        (b"\xa5", {"mask": 0xF0, "shift": 4}, 10),
        (b"\xa5", {"shift": 1}, 0x52),
        (b"\x00\x08", {"kind": "u16", "transform": "bool"}, 1),
        (b"\x00\x00", {"kind": "u16", "transform": "bool"}, 0),
        (b"\xff\x01\x80", {"count": 3, "transform": "bits"}, 10),
        (b"\xff", {"kind": "i8", "transform": "bits"}, 8),
        (b"\xfe\xff", {"kind": "i16", "transform": "bits"}, 15),
        (b"\x05\x00", {"kind": "i16", "transform": "bits"}, 2),
        (b"\x12\x34\x56", {"kind": "bcd", "count": 3, "endian": "big"}, 123456),
        (b"\x12\x34\x56", {"kind": "bcd", "count": 3}, 563412),
        (b"\x04\x00\x01", {"kind": "digits", "count": 3, "endian": "big"}, 401),
        (b"\xff\x24\x07", {"kind": "digits", "count": 3, "endian": "big"}, 7),
    ],
)
def test_a_number_is_read_as_the_field_says(image, data, words, expected):
    image.put(WORK, data)
    value = read(image, **words)
    assert value == expected
    assert type(value) is int


def test_an_array_is_read_in_its_shape_and_in_this_machines_order(image):
    image.put(WORK, struct.pack(">6H", *range(6)))
    value = read(image, kind="u16", shape=[2, 3], endian="big")
    assert value.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert value.dtype.isnative


def test_what_was_read_stays_while_memory_goes_on(image):
    reader = RamReader(MemoryMap.of({"cells": {"address": WORK, "count": 4}, "one": {"address": WORK}}), image)
    before = reader.read()
    image.put(WORK, b"\x07\x08\x09\x0a")
    assert (before["cells"].tolist(), before["one"]) == ([0, 0, 0, 0], 0)
    assert (reader.read()["cells"].tolist(), reader.read()["one"]) == ([7, 8, 9, 10], 7)


def test_a_field_may_be_derived_from_others_and_from_derived_ones(image):
    derived = {"x": lambda ram: ram["page"] * 256 + ram["low"], "far": lambda ram: ram["x"] > 500}
    memory_map = MemoryMap({"page": Field(WORK), "low": Field(WORK + 9)}, derived)
    image.put(WORK, b"\x02")
    image.put(WORK + 9, b"\x05")
    assert RamReader(memory_map, image).read() == {"page": 2, "low": 5, "x": 517, "far": True}


# ---- banks and pointers ---------------------------------------------------------------------------------------------


def test_an_address_counts_from_its_bank(image):
    image.put(FAST + 8, b"\x2a")
    assert read(image, address=8, bank="fast") == 42


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"address": 8, "bank": "fats"}, "allowed: work, fast"),
        ({"address": SIZE - 1, "bank": "fast", "kind": "u16"}, "beyond the end of fast"),
        ({"address": 0x1000}, "mapped: work, fast"),
        ({"address": 0, "pointer": 0x1000}, "mapped: work, fast"),
    ],
)
def test_a_field_that_the_machine_does_not_have_is_refused_by_name(image, words, told):
    with pytest.raises(ConfigError, match="memory map: it cannot be read") as refused:
        read(image, **words)
    assert told in str(refused.value)


def test_a_pointer_is_followed_wherever_it_moves(image):
    words = {"hp": {"pointer": FAST, "address": 6, "kind": "u16"}, "row": {"pointer": FAST, "address": 0, "count": 2}}
    reader = RamReader(MemoryMap.of(words), image)
    for block, hp in ((WORK + 0x10, 300), (WORK + 0x80, 301), (WORK + 0x10, 302)):
        image.put(FAST, struct.pack("<I", block))
        image.put(block + 6, struct.pack("<H", hp))
        image.put(block, bytes([hp & 0xFF, 1]))
        assert reader.read()["hp"] == hp
        assert reader.read()["row"].tolist() == [hp & 0xFF, 1]


@pytest.mark.parametrize("pointer", [0, 0x05000000, WORK + SIZE - 1, 0xFFFFFFFF], ids=hex)
def test_a_pointer_that_leads_nowhere_has_an_answer_or_is_an_error_that_asks_for_one(image, pointer):
    image.put(FAST, struct.pack("<I", pointer))
    words = {"pointer": FAST, "address": 2, "kind": "u16"}
    assert read(image, **words, null=7) == 7
    assert read(image, **words, null=7, count=3).tolist() == [7, 7, 7]
    assert read(image, **words, null=7, count=3, transform="bits") == 9
    reader = RamReader(MemoryMap.of({"hp": words}), image)
    for _ in range(2):
        with pytest.raises(
            EmulatorError, match=r"hp cannot be read: the pointer at 0x3000000 is .* give the field null"
        ):
            reader.read()
    image.put(FAST, struct.pack("<I", WORK))
    assert reader.read() == {"hp": 0}


# ---- spaces ---------------------------------------------------------------------------------------------------------


@st.composite
def fields(draw):
    kind = draw(st.sampled_from([*NUMBERS, *DECIMALS]))
    words = {"address": WORK, "kind": kind, "endian": draw(st.sampled_from(["little", "big"]))}
    if kind in DECIMALS:
        return Field(**words, count=draw(st.integers(1, 9)))
    if kind.startswith("u") and draw(st.booleans()):
        words["mask"] = draw(st.integers(0, 2 ** (8 * np.dtype(NUMBERS[kind]).itemsize) - 1))
        words["shift"] = draw(st.integers(0, 7))
    shape = tuple(draw(st.lists(st.integers(1, 3), max_size=3)))
    if draw(st.booleans()):
        words |= {"pointer": FAST, "address": 0, "null": draw(st.integers(0, 127))}
    return Field(**words, shape=shape, transform=draw(st.sampled_from([None, *TRANSFORMS])))


@given(field=fields(), data=st.binary(min_size=108, max_size=108), points=st.booleans())
@settings(deadline=None, database=None, max_examples=300)
def test_whatever_is_in_memory_what_is_read_is_in_the_fields_space(field, data, points):
    image = Image()
    image.put(WORK, data)
    image.put(FAST, struct.pack("<I", WORK if points else 0))
    reader = RamReader(MemoryMap({"it": field}), image)
    value = reader.read()["it"]
    space = reader.space("it", value)
    assert space.contains(np.array(value, space.dtype, ndmin=1))
    assert np.array_equal(np.array(value, space.dtype), value), "the space's type does not hold the number"


def test_a_derived_number_is_observed_as_64_bits_and_a_text_not_at_all(image):
    derived = {"x": lambda ram: 2**40, "share": lambda ram: 0.5, "name": lambda ram: "bob"}
    reader = RamReader(MemoryMap({"a": Field(WORK)}, derived), image)
    ram = reader.read()
    assert reader.space("x", ram["x"]).dtype == np.int64
    assert reader.space("share", ram["share"]) == gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    with pytest.raises(ConfigError, match="'name' is of type"):
        reader.space("name", ram["name"])


# ---- refusals -------------------------------------------------------------------------------------------------------

MISTAKES = [
    ({"kind": "u64"}, "kind='u64' is not known; allowed: u8, i8, u16, i16, u32, i32, bcd, digits"),
    ({"kind": 8}, "kind=8 is not known"),
    ({"endian": "middle"}, "allowed: little, big"),
    ({"adress": 1}, "no key 'adress'; did you mean 'address'?"),
    ({"zzz": 1}, "no key 'zzz'; allowed: address, kind"),
    ({"address": "here"}, "address='here' must be a whole number"),
    ({"address": True}, "address=True must be a whole number"),
    ({"address": -4}, "address=-4 must not be negative"),
    ({"address": 1 << 32}, "within 32 bits"),
    ({"count": 0}, "count=0 must be at least 1"),
    ({"count": 2, "shape": [2]}, "give only one of them"),
    ({"shape": [2, 0]}, "shape=[2, 0] must be a list of numbers above zero"),
    ({"shape": "x"}, "shape='x' must be"),
    ({"shape": [1 << 20, 1 << 20]}, "allowed: 1,048,576"),
    ({"mask": 0x100}, "mask=0x100 has more bits than kind 'u8'"),
    ({"kind": "i16", "mask": 1}, "read it as 'u16'"),
    ({"shift": 32}, "at most 31"),
    ({"transform": "sqrt"}, "allowed: bool, bits"),
    ({"null": 3}, "null=3 needs a pointer"),
    ({"pointer": WORK, "null": 300}, "null=300 is out of range; kind 'u8' has 0 to 255"),
    ({"pointer": WORK, "bank": "work"}, "give only one of them"),
    ({"bank": 3}, "must be the name of a region"),
    ({"kind": "bcd", "count": 10}, "at most 9"),
    ({"kind": "digits", "shape": [2]}, "but no shape"),
]


@pytest.mark.parametrize(("words", "told"), MISTAKES)
def test_a_mistake_is_refused_with_field_key_value_and_what_is_allowed(words, told):
    with pytest.raises(ConfigError) as refused:
        MemoryMap.of({"hp": {"address": WORK, **words}})
    assert str(refused.value).startswith("memory map: hp: ")
    assert told in str(refused.value)


@pytest.mark.parametrize("source", [{}, [], 5, {"hp": 5}, {"hp": {}}, {"h p": {"address": 1}}, {"hp": {1: 2}}])
def test_what_is_no_map_is_refused(source):
    with pytest.raises(ConfigError, match="memory map: "):
        MemoryMap.of(source)


def test_a_name_stands_for_one_thing():
    with pytest.raises(ConfigError, match="'x' is both a field and derived"):
        MemoryMap({"x": Field(WORK)}, {"x": lambda ram: 1})


# ---- files ----------------------------------------------------------------------------------------------------------

YAML = """
hp: {address: 0x02000010, kind: u16}
map: {address: 0x02000100, kind: u16, shape: [8, 4]}
badges: {pointer: 0x03000000, address: 4, null: 0, transform: bits}
"""


def test_a_map_may_be_a_file_of_yaml_or_json(tmp_path):
    (tmp_path / "map.yaml").write_text(YAML)
    words = {
        "hp": {"address": "0x02000010", "kind": "u16"},
        "map": {"address": 0x02000100, "kind": "u16", "shape": [8, 4]},
        "badges": {"pointer": "0x03000000", "address": 4, "null": 0, "transform": "bits"},
    }
    (tmp_path / "map.json").write_text(json.dumps(words))
    assert MemoryMap.of(tmp_path / "map.yaml") == MemoryMap.of(str(tmp_path / "map.json")) == MemoryMap.of(words)
    assert MemoryMap.of(words).fields["map"].dims == (8, 4)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("map.yaml", "hp: {address: [", "not YAML"),
        ("map.yaml", "hp: !!python/object:os.system {}", "not YAML"),
        ("map.json", "{", "not JSON"),
        ("map.json", '{"hp": {"adress": 1}}', "hp: no key 'adress'"),
        ("map.toml", "", "is a .yaml, .yml or .json file"),
        ("map.yaml", "", "must map names to fields"),
        (
            "map.yaml",
            "on: {address: 1}",
            "True is not a valid field name; allowed: strings. YAML does not read on, off",
        ),
        ("map.yaml", "7: {address: 1}", "put the name in quotes"),
        ("map.yaml", "x: {address: 1}\nx: {address: 2}", "yaml: 'x' is given twice; give it once"),
        ("map.yaml", "x: {address: 1, kind: u8, address: 2}", "'address' is given twice"),
        ("map.yaml", "? [1]\n: {address: 1}", "not YAML"),
        ("map.json", '{"x": {"address": 1}, "x": {"address": 2}}', "json: 'x' is given twice; give it once"),
    ],
)
def test_a_broken_file_is_refused_by_its_name(tmp_path, name, text, told):
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError) as refused:
        MemoryMap.of(tmp_path / name)
    assert str(tmp_path / name) in str(refused.value)
    assert told in str(refused.value)


def test_a_name_in_quotes_is_a_name_in_yaml_too(tmp_path):
    (tmp_path / "map.yaml").write_text("'on': {address: 1}")
    assert list(MemoryMap.of(tmp_path / "map.yaml")) == ["on"]


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path):
    (tmp_path / "map.yaml").write_bytes(b"\xff\xfe\x00")
    for name in ("map.yaml", "none.yaml"):
        with pytest.raises(ConfigError, match="cannot be read"):
            MemoryMap.of(tmp_path / name)
