"""A core whose sound is taken out plays the same game to the last byte, and a file without sound stays as it is."""

from __future__ import annotations

import random

import numpy as np
import pytest
from damage import damaged
from installed import core_named

from rookery.sims.backends import open_emulator
from rookery.sims.emulator import pad_of
from rookery.sims.games.registry import rom_of
from rookery.sims.libretro import elf, silence

KEYS = ["start", "b", "down", "right", "a", "up", "b", "left"]


@pytest.fixture
def played(monkeypatch):
    """Plays some seconds of a game with sounds; every moment as the core itself saves it, with the picture."""
    machines = []

    def play(core, mixers):
        monkeypatch.setattr(silence, "MIXERS", mixers)
        machines.append(open_emulator(rom_of("rookery/Errand-v0"), core=str(core.path), frame_skip=5))
        return [_moment(machines[-1], KEYS[step // 4 % len(KEYS)]) for step in range(120)]

    yield play
    for machine in machines:
        machine.close()


def _moment(machine, key):
    machine.step(pad_of(key))
    state = machine.save()
    return state.core, state.cartridge, state.pixels


def test_a_silent_core_plays_the_same_game(played, mgba):
    assert silence.MIXERS
    assert played(mgba, silence.MIXERS) == played(mgba, ())


def test_mgba_has_a_mixer_and_only_its_first_instruction_is_changed(mgba):
    whole = mgba.path.read_bytes()
    quiet = silence.silenced(whole)
    changed = np.flatnonzero(np.frombuffer(whole, np.uint8) != np.frombuffer(quiet, np.uint8))
    assert len(quiet) == len(whole)
    assert 1 <= len(changed) <= 4


def test_a_library_without_mixers_stays_as_it_is():
    data = core_named("fceumm").path.read_bytes()
    assert silence.silenced(data) == data


@pytest.mark.parametrize("table", ["header", "sections"])
def test_a_damaged_library_is_left_to_the_loader(mgba, table):
    whole, chance = mgba.path.read_bytes(), random.Random(0)
    at, size = (0, elf.HEADER.size) if table == "header" else (elf.HEADER.unpack_from(whole)[6], 64 * 30)
    for _ in range(300):
        broken = bytearray(whole)
        broken[at : at + size] = damaged(whole[at : at + size], chance)
        assert len(silence.silenced(bytes(broken))) == len(broken)
