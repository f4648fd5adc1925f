"""``ninelives record`` and ``ninelives replay`` as people use them, on the games that come with Ninelives."""

import dataclasses
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from missing import require_module
from ninelives.cli.main import main
from ninelives.sims.emulators.movies import Movie
from ninelives.sims.emulators.snapshot import Snapshot
from ninelives.sims.games import rom_of

LANTERN = "ninelives/Lantern-v0"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A movie of some steps to the right, recorded once."""
    path = tmp_path_factory.mktemp("movies") / "walk.movie"
    keys = ("right:8", "right+a:4", "noop:3")
    assert main(["record", LANTERN, "--out", str(path), "--keys", *keys]) == 0
    return path


@pytest.fixture
def walk(recorded, here):
    return Path(shutil.copy(recorded, here / "walk.movie"))


def test_a_movie_is_replayed_and_every_step_compared(ninelives, walk):
    done = ninelives("replay", "walk.movie")
    assert done.code == 0, done.err
    assert "all 15 steps match the recording" in done.out


def test_a_movie_begins_where_the_games_episodes_do(walk):
    movie = Movie.read(walk)
    assert movie.game == LANTERN
    assert movie.start, "its start is in it"


def test_the_first_step_that_differs_is_named(ninelives, walk, here):
    movie = Movie.read(walk)
    dataclasses.replace(movie, pads=(*movie.pads[:5], 0, *movie.pads[6:])).write(here / "other.movie")
    done = ninelives("replay", "other.movie")
    assert done.code == 1
    assert "step 6 of 15 differs from the recording; all steps before it match" in done.out


def test_random_actions_are_the_same_for_the_same_seed(ninelives, here, long_movie):
    for seed in ("0", "8"):
        done = ninelives("record", LANTERN, "--out", f"{seed}.movie", "--steps", "30", "--seed", seed)
        assert done.code == 0, done.err
    first, same, other = Movie.read(long_movie), Movie.read(here / "0.movie"), Movie.read(here / "8.movie")
    assert same.pads == first.pads[:30]
    assert [same.hash_of(step) for step in range(30)] == [first.hash_of(step) for step in range(30)]
    assert same.pads != other.pads


def test_actions_of_a_run_are_recorded_from_a_file(ninelives, here, walk):
    np.save(here / "actions.npy", np.array([1] * 8 + [2] * 4 + [0] * 3))  # right, right+a, noop
    done = ninelives("record", LANTERN, "--out", "same.movie", "--actions", "actions.npy")
    assert done.code == 0, done.err
    assert Movie.read(here / "same.movie") == Movie.read(walk)


def test_an_action_that_the_game_does_not_have_is_refused(ninelives, here):
    np.save(here / "actions.npy", np.array([0, 1, 99]))
    done = ninelives("record", LANTERN, "--out", "never.movie", "--actions", "actions.npy")
    assert done.code == 2
    assert "step 2 is 99; the game's actions are 0 to 6" in done.err
    assert not (here / "never.movie").exists()


def test_a_movie_is_made_again_from_its_inputs(ninelives, here, walk):
    done = ninelives("record", LANTERN, "--out", "again.movie", "--inputs-of", "walk.movie")
    assert done.code == 0, done.err
    assert Movie.read(here / "again.movie") == Movie.read(walk)


def aged(movie):
    """The same as an older version of its emulator would have made it."""
    identity = dataclasses.replace(movie.identity, version="0.0.1")
    start = dataclasses.replace(Snapshot.from_bytes(movie.start), identity=identity)
    return dataclasses.replace(movie, identity=identity, start=start.to_bytes(compress=True))


@pytest.fixture(scope="module")
def power_movie(tmp_path_factory):
    """A movie in steps of one frame that begins when the machine is switched on, as play makes them; recorded once."""
    place = tmp_path_factory.mktemp("power")
    rom, movie = shutil.copy(rom_of(LANTERN), place / "mine.nes"), place / "power.movie"
    keys = ("--frame-skip", "1", "--keys", "noop:60", "start:4", "noop:20")
    assert main(["record", str(rom), "--out", str(movie), *keys]) == 0
    return movie


@pytest.fixture
def from_power_on(power_movie, here):
    shutil.copy(power_movie.with_name("mine.nes"), here)
    return Movie.read(Path(shutil.copy(power_movie, here)))


@pytest.mark.parametrize("grown_old", [False, True])
def test_a_movie_from_power_on_is_made_again_from_there_and_as_quick(ninelives, here, from_power_on, grown_old):
    (aged(from_power_on) if grown_old else from_power_on).write(here / "old.movie")
    done = ninelives("record", LANTERN, "--out", "again.movie", "--inputs-of", "old.movie")
    assert done.code == 0, done.err
    assert "84 steps of 1 frame," in done.out
    assert "starts from a state" not in done.out
    assert Movie.read(here / "again.movie") == dataclasses.replace(from_power_on, game=LANTERN)


def test_a_movie_whose_start_cannot_be_loaded_begins_where_the_game_does_and_says_so(ninelives, here, walk):
    aged(Movie.read(walk)).write(here / "old.movie")
    done = ninelives("record", LANTERN, "--out", "again.movie", "--inputs-of", "old.movie")
    assert done.code == 0, done.err
    assert f"old.movie starts from a state of {Movie.read(walk).identity.core} 0.0.1" in done.out
    assert "starts where the game's own episodes start" in done.out
    assert Movie.read(here / "again.movie") == Movie.read(walk)


def test_a_movie_that_does_not_say_that_it_began_at_power_on_can_be_made_again(ninelives, here, from_power_on):
    dataclasses.replace(aged(from_power_on), switched_on=False).write(here / "old.movie")
    done = ninelives("record", "mine.nes", "--out", "again.movie", "--inputs-of", "old.movie")
    assert done.code == 0, done.err
    assert "the new movie starts at power-on" in done.out
    assert Movie.read(here / "again.movie") == from_power_on


def test_a_movie_is_made_again_from_another_state(ninelives, here, walk, from_power_on):
    (here / "here.rook").write_bytes(Movie.read(walk).start)
    done = ninelives("record", LANTERN, "--out", "again.movie", "--inputs-of", "power.movie", "--state", "here.rook")
    assert done.code == 0, done.err
    again = Movie.read(here / "again.movie")
    assert (again.pads, again.frame_skip, again.begins_at_power_on) == (from_power_on.pads, 1, False)
    assert Snapshot.from_bytes(again.start).machine == Snapshot.from_bytes(Movie.read(walk).start).machine


@pytest.mark.parametrize("args", [("--frame-skip", "3"), ("--env-kwargs", "frame_skip=3")])
def test_inputs_are_not_held_longer_than_they_were(ninelives, here, walk, args):
    done = ninelives("record", LANTERN, "--out", "never.movie", "--inputs-of", "walk.movie", *args)
    assert done.code == 2
    assert "walk.movie has 4 frames per step, not 3" in done.err
    assert not (here / "never.movie").exists()


def test_inputs_of_another_rom_are_refused(ninelives, here, walk):
    done = ninelives("record", "ninelives/Errand-v0", "--out", "never.movie", "--inputs-of", "walk.movie")
    assert done.code == 1
    assert "recorded with another ROM" in done.err
    assert not (here / "never.movie").exists()


def test_a_plain_rom_is_recorded_from_power_on_and_replayed_with_its_file(ninelives, here):
    shutil.copy(rom_of("ninelives/Lantern-v0"), here / "mine.nes")
    assert ninelives("record", "mine.nes", "--out", "mine.movie", "--keys", "noop:20", "start:2").code == 0
    lost = ninelives("replay", "mine.movie")
    assert lost.code == 2
    assert "recorded with 'mine.nes', which does not come with Ninelives: pass --rom" in lost.err
    assert ninelives("replay", "mine.movie", "--rom", "mine.nes").code == 0


def test_another_rom_is_refused_before_anything_runs(ninelives, walk):
    done = ninelives("replay", "walk.movie", "--rom", str(rom_of("ninelives/Errand-v0")))
    assert done.code == 1
    assert "recorded with another ROM" in done.err
    assert "errand.gba" in done.err


def test_another_version_of_the_emulator_is_refused_with_a_way_out(ninelives, walk, here):
    movie = Movie.read(walk)
    old = dataclasses.replace(movie.identity, version="0.0.1")
    dataclasses.replace(movie, identity=old).write(here / "old.movie")
    done = ninelives("replay", "old.movie")
    assert done.code == 1
    assert "0.0.1" in done.err
    assert "--inputs-of old.movie" in done.err


def test_another_emulator_is_refused_with_the_name_of_the_right_one(ninelives, walk):
    require_module("cynes")
    done = ninelives("replay", "walk.movie", "--core", "cynes")
    assert done.code == 1
    assert "core=" not in done.err
    name = re.search(r"pass --core (\S+), or", done.err)[1]
    assert ninelives("replay", "walk.movie", "--core", name).code == 0


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--rom", "none.nes"), "--rom none.nes: no such file"),
        (("--core", "no-such"), "--core no-such: no core named no-such was found"),
    ],
)
def test_what_a_replay_cannot_find_is_named_before_a_worker_looks_for_it(ninelives, walk, args, words):
    done = ninelives("replay", "walk.movie", *args)
    assert (done.code, words in done.err) == (2, True), done.err


def test_a_movie_with_a_broken_start_state_is_refused(ninelives, walk, here):
    dataclasses.replace(Movie.read(walk), start=b"nothing").write(here / "odd.movie")
    for command in (("replay", "odd.movie"), ("record", LANTERN, "--out", "x.movie", "--inputs-of", "odd.movie")):
        done = ninelives(*command)
        assert done.code == 1
        assert "odd.movie: its start state cannot be used" in done.err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--keys", "right"), "is not ACTION:STEPS"),
        (("--keys", "jump:3"), "names 'jump'"),
        (("--keys", "right:3", "--actions", "a.npy"), "choose one"),
        (("--actions", "none.npy"), "not a .npy file of numbers"),
        (("--steps", "0"), "must be at least 1"),
        (("--env-kwargs", "goal=moon"), "allowed: lighthouse, coast"),
    ],
)
def test_mistakes_are_refused_and_leave_no_file(ninelives, here, args, words):
    done = ninelives("record", LANTERN, "--out", "never.movie", *args)
    assert done.code in (1, 2)
    assert words in done.err
    assert not (here / "never.movie").exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--keys", "right:²"), "is not ACTION:STEPS"),
        (("--keys", "right:9999999999999"), "must be held for 1 to 67,108,864 steps"),
        (("--keys", "right:" + "9" * 5000), "must be held for 1 to 67,108,864 steps"),
        (("--keys", "right:0"), "must be held for 1 to 67,108,864 steps"),
        (("--keys", "right:67108864", "a:1"), "make 67,108,865 steps"),
        (("--steps", "67108865"), "at most 67,108,864"),
        (("--actions", "empty.npy"), "has 0 steps"),
        (("--frame-skip", "0"), "--frame-skip 0 must be a whole number from 1 to 1000"),
        (("--frame-skip", "1001"), "--frame-skip 1001 must be a whole number from 1 to 1000"),
        (("--core", "no-such"), "--core no-such: no core named no-such was found"),
        (("--rom", "mine.nes"), "comes with its ROM"),
        (("--out", "none/never.movie"), "there is no directory none; make it first"),
    ],
)
def test_what_cannot_be_recorded_is_refused_before_a_worker_starts(ninelives, here, args, words):
    np.save(here / "empty.npy", np.zeros(0, np.int64))
    done = ninelives("record", LANTERN, "--out", "never.movie", *args)
    assert (done.code, words in done.err) == (2, True), done.err
    assert not (here / "never.movie").exists()


def test_a_movie_is_not_overwritten(ninelives, here):
    (here / "mine.movie").write_bytes(b"precious")
    assert ninelives("record", LANTERN, "--out", "mine.movie", "--steps", "5").code == 2
    assert (here / "mine.movie").read_bytes() == b"precious"


@pytest.mark.parametrize(("cut", "words"), [(5, "is not a Ninelives movie"), (-1, "is cut short")])
def test_a_broken_movie_is_refused(ninelives, walk, cut, words):
    walk.write_bytes(walk.read_bytes()[:cut])
    done = ninelives("replay", "walk.movie")
    assert done.code == 1
    assert f"walk.movie {words}" in done.err
