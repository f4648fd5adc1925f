"""Runs the real command line in its own process, in a directory with an environment of its own."""

import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass

import pytest
from typist import HALF_BLOCK, Typist

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
            self.wait_for_ever()
        if action == 2:
            raise ValueError("no such tile")
        if action == 3:
            os.kill(os.getpid(), signal.SIGSEGV)
        return self.np_random.random(self.observation_space.shape, np.float32), 0.0, False, False, {}

    def wait_for_ever(self):
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

class Unbuildable(Game):
    def __init__(self):
        raise KeyError("rom")

class Particular(Calm):
    """Wants a ROM."""

    def __init__(self, rom=None):
        import ninelives
        super().__init__()
        if rom is None:
            raise ninelives.ConfigError("it needs your own ROM: --rom FILE")
'''


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
def ninelives(here):
    """Run ``python -m ninelives`` here."""

    def run(*args, **environ):
        done = subprocess.run(
            [sys.executable, "-m", "ninelives", *args],
            cwd=here, capture_output=True, text=True, timeout=60, env={**os.environ, "COLUMNS": "200", **environ},
        )  # fmt: skip
        return Finished(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def seat(tmp_path):
    """Sit somebody down at a terminal of their own, with a command."""
    typists = []

    def sit(*args, **more):
        typists.append(Typist(tmp_path, *args, **more))
        return typists[-1]

    yield sit
    for typist in typists:
        typist.close()


@pytest.fixture
def play(seat):
    """The same, and a picture is there."""

    def begin(*args, **more):
        typist = seat(*args, **more)
        typist.wait_for(HALF_BLOCK)
        return typist

    return begin
