"""Input movies: a file is whole or refused with the reason, and a replay finds the first step that differs."""

import dataclasses
import json
import random
import struct

import pytest

from ninelives.errors import CheckpointError, ConfigError, UsageError
from ninelives.sims.emulators import movies
from ninelives.sims.emulators.machine import Identity, pad_of
from ninelives.sims.emulators.movies import Hasher, Movie, MovieRecorder, replayed

IDENTITY = Identity("libretro", "mGBA", "0.10.1", "gba", "ab" * 32)
PADS = (0, 0, 16, 16, 16, 128, 0)


@pytest.fixture
def movie():
    recorder = MovieRecorder(IDENTITY, 4, "ninelives/Errand-v0", b"a state")
    for step, pad in enumerate(PADS):
        recorder.note(pad, struct.pack("<Q", step))
    return recorder.movie()


def test_a_movie_comes_back_from_its_file_as_it_was(movie, tmp_path):
    movie.write(tmp_path / "walk.movie")
    again = Movie.read(tmp_path / "walk.movie")
    assert again == movie
    assert again.pads == PADS
    assert again.hash_of(3) == struct.pack("<Q", 3)


def test_a_file_that_is_there_is_not_overwritten(movie, tmp_path):
    path = tmp_path / "walk.movie"
    path.write_bytes(b"precious")
    with pytest.raises(ConfigError, match="already exists"):
        movie.write(path)
    assert path.read_bytes() == b"precious"
    assert list(tmp_path.iterdir()) == [path], "no half-written file stays behind"


def test_a_movie_tells_whether_it_began_when_the_machine_was_switched_on(movie):
    switched_on = dataclasses.replace(movie, switched_on=True)
    assert [Movie.from_bytes(one.to_bytes()).begins_at_power_on for one in (switched_on, movie)] == [True, False]
    assert Movie.from_bytes(switched_on.to_bytes()) == switched_on
    assert dataclasses.replace(movie, start=b"").begins_at_power_on


def test_a_movie_ends_with_a_whole_step_wherever_recording_was_interrupted():
    recorder = MovieRecorder(IDENTITY, 4, "game", b"")
    recorder.note(1, bytes(8))
    with pytest.raises(TypeError):
        recorder.note(2, None)
    assert Movie.from_bytes(recorder.movie().to_bytes()).pads == (1,)


def test_held_buttons_take_little_room():
    held = MovieRecorder(IDENTITY, 4, "game", b"")
    for _ in range(10_000):
        held.note(16, bytes(8))
    assert len(held.movie().to_bytes()) < 10_000 * movies.HASH_BYTES + 1000


def test_a_movie_without_steps_is_a_movie():
    empty = MovieRecorder(IDENTITY, 1, "game", b"").movie()
    assert Movie.from_bytes(empty.to_bytes()) == empty


def test_every_byte_of_a_movie_counts(movie):
    data = movie.to_bytes()
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 1 << place % 8
        with pytest.raises(CheckpointError):
            Movie.from_bytes(bytes(damaged))


def test_a_movie_that_was_cut_short_is_refused_wherever_the_cut_is(movie):
    data = movie.to_bytes()
    for size in range(len(data)):
        with pytest.raises(CheckpointError):
            Movie.from_bytes(data[:size])
    with pytest.raises(CheckpointError, match=rf"walk.movie is cut short: {len(data) - 1:,} of {len(data):,} bytes"):
        Movie.from_bytes(data[:-1], "walk.movie")


@pytest.mark.parametrize("data", [b"", b"RKMOVIE", b"\x89PNG\r\n\x1a\n" + bytes(100), random.Random(0).randbytes(500)])
def test_what_is_no_movie_is_refused(data):
    with pytest.raises(CheckpointError, match="is not a Ninelives movie"):
        Movie.from_bytes(data)


def test_a_newer_movie_asks_for_a_newer_ninelives(movie):
    data = bytearray(movie.to_bytes())
    struct.pack_into("<H", data, 8, movies.FORMAT + 1)
    with pytest.raises(CheckpointError, match="format 2, this Ninelives reads 1; upgrade"):
        Movie.from_bytes(bytes(data))


def signed(header, body=b""):
    """A file with a right checksum whose header says anything."""
    import hashlib

    text = json.dumps(header).encode() if not isinstance(header, bytes) else header
    data = struct.pack("<8sHI", movies.MAGIC, movies.FORMAT, len(text)) + text + body
    return data + hashlib.sha256(data).digest()


GOOD = {
    **dataclasses.asdict(IDENTITY), "game": "g", "frame_skip": 4, "steps": 2,
    "sizes": {"start": 0, "inputs": 6, "hashes": 16},
}  # fmt: skip
INPUTS = struct.pack("<HI", 1, 2)


def test_the_hand_made_file_is_a_movie():
    assert Movie.from_bytes(signed(GOOD, INPUTS + bytes(16))).pads == (1, 1)


@pytest.mark.parametrize(
    "data",
    [
        signed(b"not json"),
        signed([]),
        signed({}),
        signed({**GOOD, "sizes": {"start": -1, "inputs": 6, "hashes": 16}}, INPUTS + bytes(16)),
        signed({**GOOD, "steps": "2"}, INPUTS + bytes(16)),
        signed({**GOOD, "steps": 3}, INPUTS + bytes(16)),
        signed({**GOOD, "steps": 10**12}, struct.pack("<HI", 1, 2**32 - 1) + bytes(16)),
        signed(GOOD, INPUTS + bytes(8)),
        signed({**GOOD, "sizes": {"start": 0, "inputs": 5, "hashes": 17}}, INPUTS[:5] + bytes(17)),
        signed(GOOD, struct.pack("<HI", 0xFFFF, 2) + bytes(16)),
        signed({key: value for key, value in GOOD.items() if key != "rom_sha256"}, INPUTS + bytes(16)),
        signed({**GOOD, "frame_skip": 0}, INPUTS + bytes(16)),
        signed({**GOOD, "frame_skip": None}, INPUTS + bytes(16)),
        signed({**GOOD, "frame_skip": 1001}, INPUTS + bytes(16)),
    ],
    ids=[
        "text",
        "list",
        "empty",
        "negative",
        "words",
        "steps",
        "bomb",
        "hashes",
        "runs",
        "pads",
        "no ROM",
        "skip",
        "no skip",
        "long skip",
    ],
)
def test_a_movie_from_a_stranger_cannot_lie(data):
    with pytest.raises(CheckpointError):
        Movie.from_bytes(data)


def test_a_movie_that_could_not_be_read_again_is_not_begun():
    assert Movie.from_bytes(MovieRecorder(IDENTITY, 1000, "game", b"").movie().to_bytes()).frame_skip == 1000
    with pytest.raises(ConfigError, match="must be a whole number from 1 to 1000"):
        MovieRecorder(IDENTITY, 1001, "game", b"")


def test_a_movie_has_an_end(monkeypatch):
    monkeypatch.setattr(movies, "LONGEST_STEPS", 2)
    recorder = MovieRecorder(IDENTITY, 4, "game", b"")
    recorder.note(0, bytes(8))
    recorder.note(0, bytes(8))
    with pytest.raises(UsageError, match="start another"):
        recorder.note(0, bytes(8))


SCRIPT = [pad_of("right")] * 5 + [0] * 3 + [pad_of("down", "a")] * 4


def recorded(emulator, start):
    hasher, recorder = Hasher(emulator), MovieRecorder(emulator.identity, emulator.frame_skip, "tiny", b"")
    emulator.load(start)
    for pad in SCRIPT:
        emulator.step(pad)
        recorder.note(pad, hasher.now())
    return recorder.movie()


def test_a_replay_is_the_same_in_another_machine_on_every_core(core, machine):
    first, second = machine(core, frame_skip=4), machine(core, frame_skip=4)
    first.advance(10, 0)
    start = first.save()
    movie = recorded(first, start)
    second.load(start)
    assert list(replayed(movie, second)) == [True] * len(SCRIPT)


def test_the_first_step_that_differs_is_found(core, machine):
    emulator = machine(core, frame_skip=4)
    emulator.advance(10, 0)
    start = emulator.save()
    movie = recorded(emulator, start)
    other = dataclasses.replace(movie, pads=(*movie.pads[:6], pad_of("left"), *movie.pads[7:]))
    emulator.load(start)
    assert list(replayed(other, emulator)).index(False) == 6


def test_another_number_of_frames_is_refused(new_mgba, machine):
    emulator = machine(new_mgba, frame_skip=4)
    emulator.advance(10, 0)
    movie = recorded(emulator, emulator.save())
    with pytest.raises(ConfigError, match="4 frames per step, the emulator 2"):
        next(replayed(movie, machine(new_mgba, frame_skip=2)))
