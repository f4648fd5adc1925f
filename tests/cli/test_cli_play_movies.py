"""``rookery record`` and ``rookery replay`` as people use them, on the games that come with Rookery."""

import dataclasses
import shutil
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

from rookery.cli.main import main
from rookery.sims.games import rom_of
from rookery.sims.movies import Movie

LANTERN = "rookery/Lantern-v0"

Finished = namedtuple("Finished", "code out err")


@pytest.fixture
def rookery(tmp_path, monkeypatch, capsys):
    """Run a command in this process, in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rookery.cli.main._look_here_first", lambda: None)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*args):
        code = main(list(args))
        return Finished(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A movie of some steps to the right, recorded once."""
    path = tmp_path_factory.mktemp("movies") / "walk.movie"
    keys = ("right:8", "right+a:4", "noop:3")
    assert main(["record", LANTERN, "--out", str(path), "--keys", *keys]) == 0
    return path


@pytest.fixture
def here(tmp_path):
    return tmp_path


@pytest.fixture
def walk(recorded, here):
    return Path(shutil.copy(recorded, here / "walk.movie"))


def test_a_movie_is_replayed_and_every_step_compared(rookery, walk):
    done = rookery("replay", "walk.movie")
    assert done.code == 0, done.err
    assert "all 15 steps are as recorded" in done.out


def test_a_movie_begins_where_the_games_episodes_do(walk):
    movie = Movie.read(walk)
    assert movie.game == LANTERN
    assert movie.start, "its start is in it"


def test_the_first_step_that_differs_is_named(rookery, walk, here):
    movie = Movie.read(walk)
    dataclasses.replace(movie, pads=(*movie.pads[:5], 0, *movie.pads[6:])).write(here / "other.movie")
    done = rookery("replay", "other.movie")
    assert done.code == 1
    assert "step 6 of 15 differs from the recording; all before it are as recorded" in done.out


def test_random_actions_are_the_same_for_the_same_seed(rookery, here):
    for name, seed in (("one", "7"), ("two", "7"), ("three", "8")):
        done = rookery("record", LANTERN, "--out", f"{name}.movie", "--steps", "30", "--seed", seed)
        assert done.code == 0, done.err
    one, two, three = (Movie.read(here / f"{name}.movie") for name in ("one", "two", "three"))
    assert (one.pads, one.hashes) == (two.pads, two.hashes)
    assert one.pads != three.pads


def test_actions_of_a_run_are_recorded_from_a_file(rookery, here, walk):
    np.save(here / "actions.npy", np.array([1] * 8 + [2] * 4 + [0] * 3))  # right, right+a, noop
    done = rookery("record", LANTERN, "--out", "same.movie", "--actions", "actions.npy")
    assert done.code == 0, done.err
    assert Movie.read(here / "same.movie") == Movie.read(walk)


def test_an_action_that_the_game_has_not_is_refused(rookery, here):
    np.save(here / "actions.npy", np.array([0, 1, 99]))
    done = rookery("record", LANTERN, "--out", "never.movie", "--actions", "actions.npy")
    assert done.code == 2
    assert "step 2 is 99; the game's actions are 0 to 6" in done.err
    assert not (here / "never.movie").exists()


def test_a_movie_is_made_again_from_its_inputs(rookery, here, walk):
    done = rookery("record", LANTERN, "--out", "again.movie", "--inputs-of", "walk.movie")
    assert done.code == 0, done.err
    assert Movie.read(here / "again.movie") == Movie.read(walk)


def test_a_mere_rom_is_recorded_from_power_on_and_replayed_with_its_file(rookery, here):
    shutil.copy(rom_of("rookery/Lantern-v0"), here / "mine.nes")
    assert rookery("record", "mine.nes", "--out", "mine.movie", "--keys", "noop:20", "start:2").code == 0
    lost = rookery("replay", "mine.movie")
    assert lost.code == 2
    assert "recorded with 'mine.nes', which does not come with Rookery: give --rom" in lost.err
    assert rookery("replay", "mine.movie", "--rom", "mine.nes").code == 0


def test_another_rom_is_refused_before_anything_runs(rookery, walk):
    done = rookery("replay", "walk.movie", "--rom", str(rom_of("rookery/Errand-v0")))
    assert done.code == 1
    assert "recorded with another ROM" in done.err
    assert "errand.gba" in done.err


def test_another_version_of_the_emulator_is_refused_with_a_way_out(rookery, walk, here):
    movie = Movie.read(walk)
    old = dataclasses.replace(movie.identity, version="0.0.1")
    dataclasses.replace(movie, identity=old).write(here / "old.movie")
    done = rookery("replay", "old.movie")
    assert done.code == 1
    assert "0.0.1" in done.err
    assert "--inputs-of old.movie" in done.err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--keys", "right"), "is not ACTION:STEPS"),
        (("--keys", "jump:3"), "names 'jump'"),
        (("--keys", "right:3", "--actions", "a.npy"), "give one of them"),
        (("--actions", "none.npy"), "no .npy file of numbers"),
        (("--steps", "0"), "must be at least 1"),
        (("--env-kwargs", "goal=moon"), "allowed: lighthouse, coast"),
    ],
)
def test_mistakes_are_refused_and_leave_no_file(rookery, here, args, words):
    done = rookery("record", LANTERN, "--out", "never.movie", *args)
    assert done.code in (1, 2)
    assert words in done.err
    assert not (here / "never.movie").exists()


def test_a_movie_is_not_overwritten(rookery, here):
    (here / "mine.movie").write_bytes(b"precious")
    assert rookery("record", LANTERN, "--out", "mine.movie", "--steps", "5").code == 2
    assert (here / "mine.movie").read_bytes() == b"precious"


@pytest.mark.parametrize(("cut", "words"), [(5, "is no movie"), (-1, "is cut short")])
def test_a_broken_movie_is_refused(rookery, walk, cut, words):
    walk.write_bytes(walk.read_bytes()[:cut])
    done = rookery("replay", "walk.movie")
    assert done.code == 1
    assert f"walk.movie {words}" in done.err
