"""A snapshot comes back as it was, or is refused in words that say why, before an emulator sees a byte."""

import dataclasses
import hashlib
import json
import os
import struct
import zlib

import numpy as np
import pytest

from ninelives.errors import CheckpointError, ConfigError
from ninelives.sims.emulators.machine import Identity, MachineState
from ninelives.sims.emulators.snapshot import FORMAT, MAGIC, Snapshot
from ninelives.sims.emulators.sparse import expand
from ninelives.sims.emulators.state_files import read_snapshot, write_snapshot

IDENTITY = Identity("libretro", "mGBA", "0.10.1", "gba", "ab" * 32)
MACHINE = MachineState(bytes(range(200)), b"cart", bytes(2 * 3 * 2), (2, 3), "rgb565", 0, 3)
WRAPPER = {
    "steps": 12, "held": 3, "share": 0.25, "big": 2**127, "name": "π", "none": None, "flag": True, "bytes": b"\0\1",
    "stack": [np.arange(6, dtype=np.uint8).reshape(2, 3)], "deep": {"list": [1, [2.5, b"x"]]}, "scalar": np.int16(-4),
}  # fmt: skip
SNAPSHOT = Snapshot(IDENTITY, MACHINE, WRAPPER, {"bit_generator": "PCG64", "state": {"state": 2**120, "inc": 1}})
PREFIX = struct.Struct("<8sHHIQ")


def forged(change_header=None, *, body=None, flags=None, number=FORMAT):
    """A snapshot with a good checksum and whatever inside; a body of its own is meant as it stands."""
    data = SNAPSHOT.to_bytes()
    _, _, written, header_bytes, _ = PREFIX.unpack_from(data)
    if flags is None:
        flags = written if body is None else 0
    header = json.loads(data[PREFIX.size + 32 :][:header_bytes])
    if change_header is not None:
        header = change_header(header) or header
    text = json.dumps(header).encode()
    body = data[PREFIX.size + 32 + header_bytes :] if body is None else body
    prefix = PREFIX.pack(MAGIC, number, flags, len(text), len(body))
    return prefix + hashlib.sha256(prefix + text + body).digest() + text + body


@pytest.mark.parametrize("compress", [False, True])
def test_a_snapshot_comes_back_as_it_was(compress):
    back = Snapshot.from_bytes(SNAPSHOT.to_bytes(compress=compress), IDENTITY)
    assert (back.identity, back.machine, back.rng) == (IDENTITY, MACHINE, SNAPSHOT.rng)
    (stack,) = back.wrapper.pop("stack")
    assert np.array_equal(stack, WRAPPER["stack"][0])
    assert stack.dtype == np.uint8
    stack[:] = 0  # an array that may be written
    expected = {key: value for key, value in WRAPPER.items() if key != "stack"}
    assert back.wrapper == expected


@pytest.mark.parametrize("kind", ["(1,f4", ",", "O", "<i8,<i8", "S4", "f", "<f3"])
def test_an_array_of_a_strange_kind_is_refused(kind):
    def change(header):
        header["wrapper"]["stack"][0]["$array"][1] = kind

    with pytest.raises(CheckpointError, match="content is invalid"):
        Snapshot.from_bytes(forged(change))


def test_a_format_that_never_was_is_damage_and_no_reason_for_a_newer_version():
    with pytest.raises(CheckpointError, match="damaged: there is no format 0"):
        Snapshot.from_bytes(forged(number=0))


def test_a_file_that_cannot_be_written_is_told_and_leaves_nothing(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(ConfigError, match="taken: cannot be written"):
        write_snapshot(tmp_path / "taken", SNAPSHOT, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_a_file_has_the_permissions_that_its_user_wants(tmp_path):
    before = os.umask(0o077)
    try:
        write_snapshot(tmp_path / "mine.rook", SNAPSHOT)
    finally:
        os.umask(before)
    assert (tmp_path / "mine.rook").stat().st_mode & 0o777 == 0o600


def test_saving_the_same_twice_gives_the_same_bytes():
    assert SNAPSHOT.to_bytes() == SNAPSHOT.to_bytes()


@pytest.mark.parametrize("value", [{1, 2}, object(), {1: 2}, np.array([None]), {"$blob": 0}])
def test_what_is_not_plain_is_refused_when_it_is_saved_and_found_by_its_name(value):
    with pytest.raises(TypeError, match=r"wrapper\.terms\[1\]"):
        dataclasses.replace(SNAPSHOT, wrapper={"terms": [1, value]}).to_bytes()


def test_a_snapshot_of_any_length_but_its_own_is_refused():
    data = SNAPSHOT.to_bytes()
    for length in range(1, len(data)):
        with pytest.raises(CheckpointError, match="cut short"):
            Snapshot.from_bytes(data[:length])
    with pytest.raises(CheckpointError, match="longer than it says"):
        Snapshot.from_bytes(data + b"\0")


def test_every_bit_counts():
    data = bytearray(SNAPSHOT.to_bytes())
    for place in range(len(data)):
        for bit in (1, 128):
            data[place] ^= bit
            with pytest.raises(CheckpointError):
                Snapshot.from_bytes(bytes(data))
            data[place] ^= bit
    Snapshot.from_bytes(bytes(data))


@pytest.mark.parametrize("data", [b"", b"\x89PNG\r\n\x1a\n", b"hello", bytes(5000), b"\x89ROOKSX"])
def test_what_is_no_snapshot_is_refused_as_such(data):
    with pytest.raises(CheckpointError, match="this is not a Ninelives snapshot"):
        Snapshot.from_bytes(data)


def test_a_newer_one_is_refused_as_such():
    with pytest.raises(
        CheckpointError, match="the snapshot has format 2, this Ninelives reads 1: use a newer Ninelives"
    ):
        Snapshot.from_bytes(forged(number=2))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"rom_sha256": "cd" * 32}, "belongs to another ROM: SHA-256 abababababababab..., this one has cdcdcdcd"),
        ({"core": "VBA"}, "was saved by mGBA 0.10.1 for gba (libretro), this is VBA 0.10.1"),
        ({"backend": "mgba"}, "this is mGBA 0.10.1 for gba (mgba)"),
        ({"system": "gb"}, "this is mGBA 0.10.1 for gb"),
        ({"version": "0.7.0"}, "was saved by mGBA 0.10.1, this is mGBA 0.7.0"),
    ],
)
def test_a_foreign_one_is_refused_with_what_differs(change, told):
    with pytest.raises(CheckpointError) as refused:
        Snapshot.from_bytes(SNAPSHOT.to_bytes(), dataclasses.replace(IDENTITY, **change))
    assert told in str(refused.value)


def change(*path, to):
    def changed(header):
        place = header
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to

    return changed


@pytest.mark.parametrize(
    "inside",
    [
        change("machine", "shape", to=[2, 4]),
        change("machine", "shape", to=[-2, -3]),
        change("machine", "shape", to="23"),
        change("machine", "layout", to="cmyk"),
        change("machine", "layout", to=[]),
        change("machine", "pad", to=-1),
        change("machine", "pad", to=1 << 20),
        change("machine", "phase", to=None),
        change("machine", "core", to="text"),
        change("machine", "core", to={"$blob": 99}),
        change("machine", "core", to={"$blob": True}),
        change("machine", to=[]),
        change("machine", "more", to=1),
        change("identity", to=None),
        change("identity", "core", to=5),
        change("blobs", to=[1, 2]),
        change("blobs", to=[-1, 1]),
        change("blobs", to="many"),
        change("wrapper", to=[]),
        change("wrapper", "stack", to={"$array": [0, "O", [1]]}),
        change("wrapper", "stack", to={"$array": [0, "u1", [7, 7]]}),
        change("wrapper", "stack", to={"$array": [0, "nonsense", [1]]}),
        change("wrapper", "stack", to={"$array": 5}),
        lambda header: [1, 2, 3],
        lambda header: "text",
        lambda header: {"machine": 1},
    ],
)
def test_a_forged_one_with_a_good_checksum_is_refused_too(inside):
    with pytest.raises(CheckpointError, match="content is invalid"):
        Snapshot.from_bytes(forged(inside))


@pytest.mark.parametrize(
    ("body", "flags", "told"),
    [
        (b"not zlib", 1, "cannot be expanded"),
        (zlib.compress(bytes(100))[:-5], 1, "or is incomplete"),
        (b"\xff" * 100, 2, "cannot be expanded"),
        (b"", 4, "use a newer Ninelives"),
    ],
)
def test_a_body_that_does_not_expand_is_refused(body, flags, told):
    with pytest.raises(CheckpointError, match=told):
        Snapshot.from_bytes(forged(body=body, flags=flags))


def test_a_body_can_be_read_with_and_without_its_empty_blocks():
    data = SNAPSHOT.to_bytes()
    body = expand(data[-PREFIX.unpack_from(data)[-1] :], len(data))
    assert Snapshot.from_bytes(forged()).machine == Snapshot.from_bytes(forged(body=body)).machine == MACHINE


def test_a_header_that_nests_without_end_is_refused():
    text = b"[" * 100_000
    prefix = PREFIX.pack(MAGIC, FORMAT, 0, len(text), 0)
    with pytest.raises(CheckpointError, match="content is invalid"):
        Snapshot.from_bytes(prefix + hashlib.sha256(prefix + text).digest() + text)


# ---- files ----------------------------------------------------------------------------------------------------------


def test_a_file_is_written_whole_and_never_over_another(tmp_path):
    path = tmp_path / "a.rook"
    write_snapshot(path, SNAPSHOT)
    assert read_snapshot(path, IDENTITY).machine == MACHINE
    with pytest.raises(ConfigError, match="already exists"):
        write_snapshot(path, dataclasses.replace(SNAPSHOT, wrapper={}))
    assert read_snapshot(path).wrapper["steps"] == 12
    write_snapshot(path, dataclasses.replace(SNAPSHOT, wrapper={}), overwrite=True)
    assert not read_snapshot(path).wrapper
    assert [file.name for file in tmp_path.iterdir()] == ["a.rook"]


def test_every_refusal_names_the_file(tmp_path):
    (tmp_path / "short.rook").write_bytes(SNAPSHOT.to_bytes()[:-1])
    for name, told in (("short.rook", "cut short"), ("none.rook", "cannot be read"), (".", "cannot be read")):
        with pytest.raises(CheckpointError, match=told) as refused:
            read_snapshot(tmp_path / name)
        assert str(tmp_path / name) in str(refused.value)
    with pytest.raises(ConfigError, match="cannot be written"):
        write_snapshot(tmp_path / "nowhere" / "a.rook", SNAPSHOT)
