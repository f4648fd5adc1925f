"""Runs the command line in the test's own process, or as a real process where that is the point."""

import contextlib
import os
import shutil
import subprocess
import sys
import textwrap
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest
from typist import HALF_BLOCK, Typist

from ninelives.cli.main import main
from ninelives.testing import leftovers

GAME = '''
import os, signal, time
import gymnasium, numpy as np

class Game(gymnasium.Env):
    """Hangs, raises or crashes when its action says so."""

    def __init__(self, size=3):
        self.observation_space = gymnasium.spaces.Box(-1, 1, (size,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(self.observation_space.shape, np.float32), {}

    def step(self, action):
        if action == 1:
            self.wait_forever()
        if action == 2:
            raise ValueError("no such tile")
        if action == 3:
            os.kill(os.getpid(), signal.SIGSEGV)
        return self.np_random.random(self.observation_space.shape, np.float32), 0.0, False, False, {}

    def wait_forever(self):
        time.sleep(1000)

class Calm(Game):
    """Never breaks."""

    def step(self, action):
        return super().step(0)

class Moody(Calm):
    """Not the same twice, and not always inside its space."""

    def step(self, action):
        return (self.observation_space.high + np.float32(np.random.rand()), *super().step(0)[1:])

class Fatal(Calm):
    def step(self, action):
        return Game.step(self, 3)

class Stuck(Calm):
    def step(self, action):
        return Game.step(self, 1)

class Raising(Calm):
    def step(self, action):
        return Game.step(self, 2)

class Unbuildable(Game):
    def __init__(self):
        raise KeyError("rom")

class NeedsRom(Calm):
    """Wants a ROM."""

    def __init__(self, rom=None, size=3):
        import ninelives
        super().__init__(size)
        if rom is None:
            raise ninelives.ConfigError("it needs your own ROM: --rom FILE")
'''


SMALL = ("--ppo.n-steps", "32", "--n-envs", "4", "--overlap", "off")
"""Settings of a training run that takes less than a second."""


@dataclass(frozen=True)
class Finished:
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def here(tmp_path):
    """A directory that holds ``game.py``."""
    (tmp_path / "game.py").write_text(textwrap.dedent(GAME))
    return tmp_path


@pytest.fixture
def ninelives(here, monkeypatch, capsys):
    """Run ``ninelives ARGS`` in this process, in a directory whose modules each test imports anew."""
    monkeypatch.chdir(here)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "path", [str(here), *sys.path])
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    for name in ("game", "mygame", "wandb"):
        monkeypatch.delitem(sys.modules, name, raising=False)

    def run(*args):
        capsys.readouterr()
        return Finished(exit_code(*args), *capsys.readouterr())

    return run


def exit_code(*args):
    """What ``ninelives ARGS`` exits with; help and wrong flags leave by SystemExit."""
    try:
        return main(args)
    except SystemExit as ended:
        return ended.code or 0


@pytest.fixture
def process(here):
    """Run ``python -m ninelives`` in a process of its own."""

    def run(*args, **environ):
        done = subprocess.run(
            [sys.executable, "-m", "ninelives", *args],
            cwd=here, capture_output=True, text=True, timeout=60, env={**os.environ, "COLUMNS": "200", **environ},
        )  # fmt: skip
        return Finished(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture(scope="session")
def small_run(tmp_path_factory):
    """The directory of a finished run of 128 steps, trained once; copy it."""
    place = tmp_path_factory.mktemp("run") / "one"
    assert main(["train", "CartPole-v1", "--timesteps", "128", *SMALL, "--run-dir", str(place)]) == 0
    return place


@pytest.fixture
def one(small_run, here):
    """A finished run of 128 steps, as ``one``."""
    return Path(shutil.copytree(small_run, here / "one"))


@pytest.fixture(scope="session")
def long_movie(tmp_path_factory):
    """A movie of 150 steps, ten seconds long, recorded once."""
    path = tmp_path_factory.mktemp("movies") / "long.movie"
    assert main(["record", "ninelives/Lantern-v0", "--out", str(path), "--steps", "150"]) == 0
    return path


@pytest.fixture(scope="session")
def _fonts_are_open(tmp_path_factory):
    """matplotlib keeps the fonts it has read open: have it read them before descriptors are counted."""
    from ninelives.view.plot import write_curve

    write_curve(tmp_path_factory.mktemp("fonts") / "curve.png", [], [(0.0, 1.0)], "a title", [(1.0, "mark")])


@pytest.fixture
def reap_orphans():
    """Wait for the workers of a killed trainer, as init would: they fall to this process (see the session fixture)."""

    def left():
        for child in leftovers.descendants():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child.pid, os.WNOHANG)
        return leftovers.descendants()

    def reap():
        assert leftovers.await_none(left, within_s=20.0) == []

    return reap


@pytest.fixture
def seat(tmp_path):
    """Start a command in a terminal of its own, with a user typing."""
    typists = []

    def sit(*args, **more):
        typists.append(Typist(tmp_path, *args, **more))
        return typists[-1]

    yield sit
    for typist in typists:
        typist.close()


@pytest.fixture
def play(seat):
    """The same, and wait for the first picture."""

    def begin(*args, **more):
        typist = seat(*args, **more)
        typist.wait_for(HALF_BLOCK)
        return typist

    return begin
