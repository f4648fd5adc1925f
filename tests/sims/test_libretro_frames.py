"""The frames of a step: run natively or with Python asked in each of them, a game is the same game."""

from __future__ import annotations

import gc
import signal
import time
from pathlib import Path

import pytest
from gazing import PADS, sight

from ninelives.errors import EmulatorError
from ninelives.sims.emulators.machine import pad_of
from ninelives.sims.libretro.frames import NativeFrames, PyFrames


@pytest.fixture
def played(monkeypatch, machine):
    """Plays a tiny game natively or not; memory and picture after every step."""

    def play(core, native, **settings):
        monkeypatch.setenv("NINELIVES_NATIVE", "1" if native else "0")
        game = machine(core, frame_skip=4, **settings)
        assert type(game._game.frontend.frames) is (NativeFrames if native else PyFrames)
        return [moment(game, PADS[step // 5 % len(PADS)]) for step in range(90)]

    return play


def moment(game, pad):
    game.step(pad)
    return sight(game)


def test_both_twins_play_the_same_game(played, core):
    native, python = played(core, True), played(core, False)
    assert len({seen["picture"] for seen in native}) > 3, "the pad must be felt"
    assert native == python


def test_any_number_of_frames_is_run(machine, core):
    """Long runs go in parts; the game does not notice."""
    one, other = machine(core), machine(core)
    for _ in range(150):
        one.step(pad_of("right"))
    other.advance(150, pad_of("right"))
    assert moment(one, 0) == moment(other, 0)


def test_a_long_run_can_be_interrupted(machine, new_mgba):
    game = machine(new_mgba)
    heard = []

    def hear(number, frame):
        heard.append(number)
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, hear)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    began = time.monotonic()
    try:
        with pytest.raises(TimeoutError):
            game.advance(100_000_000, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert heard
    assert time.monotonic() - began < 60, "a hundred million frames take hours"


def copies():
    """Private copies of the native twin, by the part of each that can be written to."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {line.split()[4] for line in lines if "ninelives-frames-" in line and "rw-p" in line}


def test_nothing_is_left_of_a_machine_that_is_closed(machine, new_mgba):
    gc.collect()
    before = copies()
    game = machine(new_mgba)
    assert len(copies()) == len(before) + 1
    game.close()
    del game
    gc.collect()
    assert copies() == before


def test_nothing_is_left_of_one_that_could_not_be_opened(machine, new_mgba):
    gc.collect()
    before = copies()
    with pytest.raises(EmulatorError):
        machine(new_mgba, rom=b"no game" * 9)
    gc.collect()
    assert copies() == before
