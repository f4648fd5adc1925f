"""A core whose sound is taken out plays the same game to the last byte, and a file without sound stays as it is."""

from __future__ import annotations

import ctypes
import random

import pytest
from damage import damaged
from installed import core_named

from ninelives.sims.emulators.backends import open_emulator
from ninelives.sims.emulators.machine import pad_of
from ninelives.sims.games.registry import rom_of
from ninelives.sims.libretro import elf, library, mute_audio

KEYS = ["start", "b", "down", "right", "a", "up", "b", "left"]


@pytest.fixture
def played(monkeypatch):
    """Plays some seconds of a game with sounds; every moment as the core itself saves it, with the picture."""
    machines = []

    def play(core, mixers):
        monkeypatch.setattr(mute_audio, "MIXERS", mixers)
        machines.append(open_emulator(rom_of("ninelives/Errand-v0"), core=str(core.path), frame_skip=5))
        return [_moment(machines[-1], KEYS[step // 4 % len(KEYS)]) for step in range(120)]

    yield play
    for machine in machines:
        machine.close()


def _moment(machine, key):
    machine.step(pad_of(key))
    state = machine.save()
    return state.core, state.cartridge, state.pixels


def test_a_silent_core_plays_the_same_game(played, mgba):
    assert mute_audio.MIXERS
    assert played(mgba, mute_audio.MIXERS) == played(mgba, ())


def test_mgba_has_one_mixer(mgba):
    whole = mgba.path.read_bytes()
    (at,) = mute_audio.stubs(whole)
    assert 0 < at < len(whole)


def test_a_core_is_loaded_without_its_mixer(new_mgba, tmp_path):
    (code,) = mute_audio.stubs(new_mgba.path.read_bytes()).values()
    core = library.load(new_mgba.path, tmp_path)
    try:
        assert ctypes.string_at(ctypes.cast(core.blip_add_delta, ctypes.c_void_p).value, len(code)) == code
    finally:
        library.unload(core)


def test_in_a_library_without_mixers_nothing_is_changed():
    assert mute_audio.stubs(core_named("fceumm").path.read_bytes()) == {}


@pytest.mark.parametrize("table", ["header", "sections"])
def test_nothing_is_written_outside_of_a_damaged_library(mgba, table):
    whole, chance = mgba.path.read_bytes(), random.Random(0)
    at, size = (0, elf.HEADER.size) if table == "header" else (elf.HEADER.unpack_from(whole)[6], 64 * 30)
    for _ in range(300):
        broken = whole[:at] + damaged(whole[at : at + size], chance) + whole[at + size :]
        assert all(0 <= place <= len(broken) - len(code) for place, code in mute_audio.stubs(broken).items())
