"""However a played game ends, the terminal is restored and no file is lost."""

import re
import shutil
import signal
import termios
from pathlib import Path

from ninelives.console.game_session import GameSession, find_game
from ninelives.console.playing import GameControls
from ninelives.console.playing import play as play_on
from ninelives.sims.emulators.movies import Movie

LANTERN = "ninelives/Lantern-v0"


def test_a_request_to_end_keeps_the_movie_and_restores_the_terminal(play, tmp_path):
    typist = play(LANTERN, "--movie", "played.movie", "--out", "night.rook")
    typist.type(b".1")
    typist.wait_for(rb"saved night.rook")
    typist.send(signal.SIGTERM)
    assert typist.code() == 128 + signal.SIGTERM
    assert b"\x1b[?25h\x1b[?1049l" in typist.seen, "the cursor and the screen that was there before come back"
    assert termios.tcgetattr(typist.slave) == typist.before
    assert Movie.read(tmp_path / "played.movie").steps > 0
    assert "start episodes from it with state='night.rook'" in typist.words()


def test_a_movie_that_is_watched_ends_in_order_too(play, long_movie):
    typist = play(str(long_movie), "--watch", verb="replay")
    typist.send(signal.SIGTERM)
    assert typist.code() == 128 + signal.SIGTERM
    assert b"\x1b[?25h\x1b[?1049l" in typist.seen
    assert termios.tcgetattr(typist.slave) == typist.before


def test_closing_the_terminal_loses_no_movie(play, tmp_path):
    typist = play(LANTERN, "--movie", "played.movie")
    typist.type(b".")
    typist.wait_for(rb"for the next")
    typist.hang_up()
    assert Movie.read(tmp_path / "played.movie").steps > 0


def test_a_movie_whose_directory_has_gone_is_saved_elsewhere(play, tmp_path):
    (tmp_path / "films").mkdir()
    (tmp_path / "spare").mkdir()
    typist = play(LANTERN, "--movie", "films/played.movie", "--out", "night.rook", TMPDIR=str(tmp_path / "spare"))
    typist.type(b".1")
    typist.wait_for(rb"saved night.rook")
    shutil.rmtree(tmp_path / "films")
    typist.type(b"q")
    assert typist.code() == 1
    kept = Path(re.search(r"the movie was saved to (\S+)", typist.words())[1])
    assert kept.is_relative_to(tmp_path / "spare")
    assert Movie.read(kept).steps > 0
    assert "start episodes from it with state='night.rook'" in typist.words()


def test_a_terminal_without_a_cursor_is_refused(seat):
    typist = seat(LANTERN, TERM="dumb")
    assert typist.code() == 2
    assert "ninelives play needs a terminal that can move its cursor; TERM=dumb cannot; or use --window" in " ".join(
        typist.words().split()
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
    """A screen whose user quits after the third picture."""

    pictures_per_s = 20

    def __init__(self):
        self.shown = 0

    def commands(self, wait_s):
        return iter(["quit"] if self.shown >= 3 else [])

    def held(self):
        return ()

    def show(self, image, line):
        self.shown += 1
        assert self.shown < 20, "the keyboard is not read"


def test_keys_are_read_also_on_a_machine_that_is_slower_than_the_game(tmp_path):
    screen = Impatient()
    with GameSession(find_game(LANTERN, None)) as session:
        play_on(GameControls(session, tmp_path / "night.rook"), screen, Late(), session.frames_per_s)
    assert screen.shown == 3, "quitting waits for nothing more"
