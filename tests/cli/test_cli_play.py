"""``ninelives play`` in a real terminal: keys are typed into a pty, and its output is what a person would see."""

import dataclasses
import os
import re
import shutil
import subprocess
import sys
import termios

import pytest

from ninelives.sims.emulators.movies import Movie
from ninelives.sims.games import lantern, rom_of
from ninelives.sims.games.lantern import MODES

RIGHT, ENTER = b"\x1b[C", b"\r"


def saved_in(path):
    """What the game's memory holds where a state begins."""
    env = lantern.make(state=path)
    ram = dict(env.ram)
    env.close()
    return ram


def test_a_game_is_played_saved_and_left_with_the_terminal_as_it_was(play, tmp_path):
    typist = play("ninelives/Lantern-v0", "--out", "night.rook")
    typist.type(ENTER + b"1")
    typist.wait_for(rb"saved night.rook")
    places = []
    for number in range(2, 30):
        typist.type(RIGHT + b"1")
        typist.wait_for(rb"saved night-%d.rook" % number)
        now = saved_in(tmp_path / f"night-{number}.rook")
        places += [now["x"]] if now["mode"] == MODES.index("play") else []
        if places and places[-1] > places[0]:
            break
    assert places[-1] > places[0], "START began the game, and the arrow walks"
    typist.type(b"q")
    assert typist.code() == 0
    assert b"\x1b[?1049l" in typist.seen, "the screen that was there before comes back"
    assert termios.tcgetattr(typist.slave) == typist.before
    assert "start episodes from it with state='night.rook'" in typist.words()
    again = play("ninelives/Lantern-v0", "--state", f"night-{number}.rook", "--out", "again.rook")
    again.type(b"p1q")
    assert again.code() == 0
    assert saved_in(tmp_path / "again.rook")["mode"] == MODES.index("play"), "it begins where the state was saved"


def test_a_state_is_loaded_again_and_frames_go_one_by_one(play, tmp_path):
    typist = play("ninelives/Lantern-v0", "--out", "night.rook")
    typist.type(b"p")
    typist.wait_for(rb"paused")
    typist.type(b"2")
    typist.wait_for(rb"nothing saved yet")
    typist.type(b"1")
    typist.wait_for(rb"saved night.rook")
    typist.type(b"..")
    first = int(typist.wait_for(rb"frame (\d+): \. for the next")[1])
    typist.type(b"1")
    typist.wait_for(rb"saved night-2.rook")
    assert (tmp_path / "night.rook").read_bytes() != (tmp_path / "night-2.rook").read_bytes()
    typist.type(b"2")
    typist.wait_for(rb"loaded the saved state")
    typist.type(b".")
    assert int(typist.wait_for(rb"frame (\d+): \. for the next")[1]) > first
    typist.type(b"fh")
    typist.wait_for(rb"arrows: move")
    typist.type(b"\x1a")
    typist.wait_for(rb"Ctrl-Z is off while you play")
    typist.type(b"q")
    assert typist.code() == 0


def test_ctrl_c_leaves_the_terminal_as_it_was(play):
    typist = play("ninelives/Lantern-v0")
    typist.type(b"\x03")
    assert typist.code() == 130
    assert termios.tcgetattr(typist.slave) == typist.before
    assert b"\x1b[?25h" in typist.seen, "the cursor comes back"


def test_what_is_played_can_be_recorded_and_replayed(play, tmp_path, ninelives):
    typist = play("ninelives/Lantern-v0", "--movie", "played.movie")
    typist.type(ENTER + RIGHT + b"2")
    typist.wait_for(rb"a movie is being recorded, so no state can be loaded")
    typist.type(b"q")
    assert typist.code() == 0
    assert re.search(r"played.movie: [\d,]+ frames", typist.words())
    done = ninelives("replay", "played.movie")
    assert (done.code, "match the recording" in done.out) == (0, True), done.err
    again = ninelives("record", "ninelives/Lantern-v0", "--out", "again.movie", "--inputs-of", "played.movie")
    assert (again.code, " of 1 frame," in again.out) == (0, True), again.err
    assert Movie.read(tmp_path / "again.movie") == Movie.read(tmp_path / "played.movie")


def test_a_movie_is_watched_and_left(play, long_movie):
    typist = play(str(long_movie), "--watch", verb="replay")
    typist.wait_for(rb"step \d+ of 150")
    typist.type(b"q")
    assert typist.code() == 0
    assert re.search(
        r"stopped after step \d+ of 150; all of them match the recording", " ".join(typist.words().split())
    )
    assert termios.tcgetattr(typist.slave) == typist.before


def test_a_rom_of_another_revision_is_played_with_a_warning(play, here):
    shutil.copy(rom_of("ninelives/Lantern-v0"), here / "mine.nes")
    typist = play("ninelives/Mario-v0", "--rom", "mine.nes")
    typist.type(b"q")
    assert typist.code() == 0
    assert "facee9c577a5262dbe33ac4930bb0b58c8c037f7" in typist.words()


def test_without_a_terminal_it_says_so(ninelives):
    done = ninelives("play", "ninelives/Lantern-v0")
    assert done.code == 2
    assert "ninelives play needs a terminal for keys and pictures; or use --window" in done.err


def test_a_movie_is_not_watched_without_a_terminal(ninelives, tmp_path, long_movie):
    movie = Movie.read(long_movie)
    old = dataclasses.replace(movie, identity=dataclasses.replace(movie.identity, version="0.0.1"))
    old.write(tmp_path / "old.movie")
    done = ninelives("replay", "old.movie", "--watch")
    assert done.code == 2, "said before an emulator is opened, which would refuse the movie"
    assert "--watch needs a terminal for keys and pictures; leave it out to compare only" in done.err


def test_a_window_without_a_display_is_refused(process, tmp_path, monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    done = process("play", "ninelives/Lantern-v0", "--window", XDG_RUNTIME_DIR=str(tmp_path))
    assert done.code == 2
    assert "--window: cannot open a window" in done.err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("Nothing-v0",), "neither a ROM file nor a game; games: ninelives/Errand-v0"),
        (("erand",), "neither a ROM file nor a game; did you mean ninelives/Errand-v0?"),
        (("ninelives/Lantern-ram",), "did you mean ninelives/Lantern-ram-v0?"),
        (("ninelives/Mario-v0",), "needs your own ROM of Super Mario Bros."),
        (("ninelives/Mario-v0", "--rom", "none.nes"), "--rom none.nes: no such file"),
        (("ninelives/Lantern-v0", "--state", "none.rook"), "none.rook"),
        (
            ("ninelives/Lantern-v0", "--rom", "game.py"),
            "ninelives/Lantern-v0 comes with its ROM: leave --rom game.py out",
        ),
        (("ninelives/Lantern-v0", "--core", "no-such"), "--core no-such: no core named no-such was found"),
        (("ninelives/Lantern-v0", "--core", "./none.so"), "--core ./none.so"),
        (("ninelives/Lantern-v0", "--movie", "none/long.movie"), "there is no directory none; make it first"),
        (("ninelives/Lantern-v0", "--movie", "game.py/long.movie"), "there is no directory game.py; make it first"),
        (("ninelives/Lantern-v0", "--out", "none/start.rook"), "there is no directory none; make it first"),
        (("game.py", "--rom", "none.nes"), "is a ROM file already; leave --rom none.nes out"),
        (("ninelives/Lantern-v0", "--movie", "game.py"), "exists already"),
    ],
)
def test_mistakes_are_reported_before_a_terminal_is_needed(ninelives, args, words):
    done = ninelives("play", *args)
    assert done.code in (1, 2)
    assert words in " ".join(done.err.split())


def test_a_game_in_a_window(ninelives, here):
    (here / "press.py").write_text(
        "import os, pygame, threading, time\n"
        "from ninelives.cli.main import main\n"
        "from ninelives.console import window\n"
        "class Pressed(window.WindowScreen):\n"
        "    shown = 0\n"
        "    def show(self, image, line):\n"
        "        super().show(image, line)\n"
        "        Pressed.shown += 1\n"
        "        keys = {3: pygame.K_RIGHT, 5: pygame.K_1, 8: pygame.K_q}\n"
        "        if Pressed.shown in keys:\n"
        "            pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=keys[Pressed.shown]))\n"
        "window.WindowScreen = Pressed\n"
        "raise SystemExit(main(['play', 'ninelives/Lantern-v0', '--window', '--out', 'seen.rook']))\n"
    )
    environ = {**os.environ, "SDL_VIDEODRIVER": "dummy", "PYGAME_HIDE_SUPPORT_PROMPT": "1"}
    done = subprocess.run(
        [sys.executable, "press.py"], cwd=here, env=environ, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert saved_in(here / "seen.rook")["mode"] == MODES.index("title")
