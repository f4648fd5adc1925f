"""However a game that is played ends, the terminal is as it was and nothing that was made is lost."""

import re
import shutil
import signal
import termios
from pathlib import Path

from ninelives.console.game_session import GameSlot, find_game
from ninelives.console.playing import Player
from ninelives.console.playing import play as play_on
from ninelives.sims.emulators.movies import Movie

LANTERN = "ninelives/Lantern-v0"


def test_whoever_is_asked_to_end_keeps_the_movie_and_leaves_the_terminal_as_it_was(play, tmp_path):
    typist = play(LANTERN, "--movie", "played.movie", "--out", "night.rook")
    typist.type(b".1")
    typist.wait_for(rb"saved night.rook")
    typist.send(signal.SIGTERM)
    assert typist.code() == 128 + signal.SIGTERM
    assert b"\x1b[?25h\x1b[?1049l" in typist.seen, "the cursor and the screen that was there before come back"
    assert termios.tcgetattr(typist.slave) == typist.before
    assert Movie.read(tmp_path / "played.movie").steps > 0
    assert "begin episodes there with state='night.rook'" in typist.words()


def test_a_movie_that_is_watched_ends_in_order_too(play, ninelives):
    assert ninelives("record", LANTERN, "--out", "long.movie", "--steps", "400").code == 0
    typist = play("long.movie", "--watch", verb="replay")
    typist.send(signal.SIGTERM)
    assert typist.code() == 128 + signal.SIGTERM
    assert b"\x1b[?25h\x1b[?1049l" in typist.seen
    assert termios.tcgetattr(typist.slave) == typist.before


def test_a_terminal_that_is_closed_costs_no_movie(play, tmp_path):
    typist = play(LANTERN, "--movie", "played.movie")
    typist.type(b".")
    typist.wait_for(rb"for the next")
    typist.hang_up()
    assert Movie.read(tmp_path / "played.movie").steps > 0


def test_ctrl_z_is_a_mere_key_that_says_so(play):
    typist = play(LANTERN)
    typist.type(b"\x1a")
    typist.wait_for(rb"Ctrl-Z is off while you play")
    typist.type(b"q")
    assert typist.code() == 0
    assert termios.tcgetattr(typist.slave) == typist.before


def test_a_movie_whose_directory_has_gone_is_kept_elsewhere(play, tmp_path):
    (tmp_path / "films").mkdir()
    (tmp_path / "spare").mkdir()
    typist = play(LANTERN, "--movie", "films/played.movie", "--out", "night.rook", TMPDIR=str(tmp_path / "spare"))
    typist.type(b".1")
    typist.wait_for(rb"saved night.rook")
    shutil.rmtree(tmp_path / "films")
    typist.type(b"q")
    assert typist.code() == 1
    kept = Path(re.search(r"the movie is kept in (\S+)", typist.words())[1])
    assert kept.is_relative_to(tmp_path / "spare")
    assert Movie.read(kept).steps > 0
    assert "begin episodes there with state='night.rook'" in typist.words()


def test_a_terminal_without_a_cursor_is_refused_in_a_sentence(seat):
    typist = seat(LANTERN, TERM="dumb")
    assert typist.code() == 2
    assert (
        "ninelives play needs a terminal that can move its cursor, and TERM=dumb cannot; or use --window"
        in " ".join(typist.words().split())
    )
    assert b"\x1b[?1049h" not in typist.seen


class Late:
    """A clock on a machine that is slower than any game: whenever it is looked at, the next picture is overdue."""

    def __init__(self):
        self._now = 0

    def now_ns(self):
        self._now += 60_000_000_000
        return self._now


class Impatient:
    """A face at which somebody quits after the third picture."""

    pictures_per_s = 20

    def __init__(self):
        self.shown = 0

    def commands(self, wait_s):
        return iter(["quit"] if self.shown >= 3 else [])

    def held(self):
        return ()

    def show(self, image, line):
        self.shown += 1
        assert self.shown < 20, "nobody looks at the keyboard"


def test_keys_are_read_also_on_a_machine_that_is_slower_than_the_game(tmp_path):
    face = Impatient()
    with GameSlot(find_game(LANTERN, None)) as slot:
        play_on(Player(slot, tmp_path / "night.rook"), face, Late(), slot.frames_per_s)
    assert face.shown == 3, "whoever quits waits for nothing more"
