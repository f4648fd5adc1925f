"""A state is everything: whoever loads it goes on exactly as the one who saved it did, in this machine or another."""

from __future__ import annotations

import ctypes
import dataclasses
import random

import numpy as np
import pytest
from gazing import PADS, play, sight
from tiny_roms import GBA_TIME

from ninelives.errors import EmulatorError
from ninelives.sims.libretro import mgba_state


def comparable(core, state):
    """gambatte writes bytes into its states that mean nothing, and the host's time."""
    return dataclasses.replace(state, core=b"") if core.name == "gambatte" else state


def test_play_goes_on_exactly_from_a_state(core, machine):
    emulator = machine(core, frame_skip=4, save=True)
    at_power_on = emulator.save()
    first = play(emulator, 1)
    then, state = sight(emulator), emulator.save()
    second = play(emulator, 2)
    fresh, never_run = (machine(core, frame_skip=4, save=True) for _ in range(2))
    assert play(fresh, 1) == first, "a machine does not start the same way twice"
    play(fresh, 3)
    for other in (emulator, fresh, never_run):
        other.load(state)
        assert sight(other) == then
        assert play(other, 2) == second
        other.load(at_power_on)
        assert play(other, 1) == first


def test_a_state_holds_the_picture_and_the_pad(core, machine):
    emulator, other = machine(core, frame_skip=2), machine(core, frame_skip=2)
    for pad in PADS:
        emulator.step(pad)
    state, shown = emulator.save(), emulator.picture().pixels.copy()
    emulator.step(0)
    other.load(state)
    assert np.array_equal(other.picture().pixels, shown)
    assert (state.shape, state.layout, state.pad, state.phase) == (shown.shape, "rgb565", PADS[-1], 0)
    assert comparable(core, other.save()) == comparable(core, state)


def test_the_size_of_a_state_may_change(new_mgba, machine):
    """mGBA does not know at first how much memory a cartridge has."""
    emulator = machine(new_mgba, save=True)
    early = emulator.save()
    first = play(emulator, 1)
    late = emulator.save()
    assert len(early.core) != len(late.core)
    assert len(late.core) == emulator._game._core.retro_serialize_size()
    emulator.load(early)
    assert len(emulator.save().core) == emulator._game._core.retro_serialize_size()
    assert play(emulator, 1) == first
    assert emulator.save() == late


def test_the_cartridge_is_added_where_the_core_forgets_it(old_mgba, machine):
    emulator = machine(old_mgba, save=True)
    play(emulator, 1)
    state = emulator.save()
    after = play(emulator, 2)
    assert len(state.cartridge) == 32768
    emulator.load(dataclasses.replace(state, cartridge=b""))
    assert play(emulator, 2) != after, "the core's own state would have been enough"
    emulator.load(state)
    assert play(emulator, 2) == after


def test_the_cartridge_is_not_added_twice(new_mgba, machine):
    emulator = machine(new_mgba, save=True)
    play(emulator, 1)
    assert emulator.abilities.cartridge_in_state
    assert emulator.save().cartridge == b""


def seconds(emulator):
    hours, minutes, tens = (int(byte) for byte in emulator.memory.view(GBA_TIME, 3))
    return ((hours & 0x3F) * 60 + minutes) * 60 + (tens >> 4) * 10 + (tens & 15)


def test_a_cartridges_clock_counts_frames_and_not_the_hosts_time(new_mgba, machine):
    emulator, other = machine(new_mgba, frame_skip=60, clock=True), machine(new_mgba, frame_skip=60, clock=True)
    assert emulator.abilities.clock_pinned
    times = []
    for _ in range(12):
        emulator.step(0)
        times.append(seconds(emulator))
    assert 10 <= times[-1] - times[0] <= 12, "12 steps of 60 frames are 12 seconds of the game"
    for expected in times:
        other.step(0)
        assert seconds(other) == expected


def test_a_state_with_another_clock_is_pinned_when_it_is_loaded(new_mgba, machine):
    emulator = machine(new_mgba, frame_skip=60, clock=True)
    state = emulator.save()
    at = mgba_state.clock_at(state.core, "gba")
    by_the_host = state.core[:at] + mgba_state.CLOCK_RECORD.pack(0, 0, 0) + state.core[at + 16 :]
    expected = play(emulator, 1, steps=4)
    emulator.load(dataclasses.replace(state, core=by_the_host))
    assert play(emulator, 1, steps=4) == expected


def test_a_core_without_a_clock_in_its_states_says_so(old_mgba, machine):
    assert machine(old_mgba, clock=True).abilities.clock_pinned is False


def test_pinning_leaves_everything_else_as_it_was(new_mgba, machine):
    state = machine(new_mgba).save().core
    at = mgba_state.clock_at(state, "gba")
    by_the_host = state[:at] + bytes(16) + state[at + 16 :]
    assert mgba_state.with_pinned_clock(by_the_host, "gba") == state
    assert mgba_state.with_pinned_clock(state, "gba") is state


def test_the_table_behind_a_state_is_never_trusted():
    chance = random.Random(1)
    start = mgba_state.MACHINE_BYTES["gba"]
    for length in (0, 1, 15, 16, 17, 100, 400):
        for _ in range(200):
            state = bytes(start) + bytes(chance.choice((0, 1, 2, 4, 255, chance.randrange(256))) for _ in range(length))
            mgba_state.holds_cartridge(state, "gba")
            assert len(mgba_state.with_pinned_clock(state, "gba")) == len(state)
    assert not mgba_state.holds_cartridge(b"", "gba")
    assert mgba_state.clock_at(bytes(start), "snes") is None


REFUSED = [
    ({"core": b"nonsense" * 100}, "rejects a state of 800 bytes"),
    ({"core": b""}, "rejects a state of 0 bytes"),
    ({"pixels": b"too short"}, "picture is invalid"),
    ({"shape": (160, 240, 4)}, "picture is invalid"),
    ({"layout": "mauve"}, "picture is invalid"),
    ({"shape": ()}, "picture is invalid"),
]


def test_an_invalid_state_is_refused_and_play_goes_on(mgba, machine):
    emulator, other = machine(mgba, save=True), machine(mgba, save=True)
    state = emulator.save()
    for change, words in REFUSED:
        play(emulator, 1, steps=3)
        with pytest.raises(EmulatorError, match=words):
            emulator.load(dataclasses.replace(state, **change))
        play(other, 1, steps=3)
        assert play(emulator, 2, steps=3) == play(other, 2, steps=3)


def test_a_cartridge_of_another_size_is_refused(old_mgba, machine):
    emulator = machine(old_mgba, save=True)
    play(emulator, 1, steps=3)
    with pytest.raises(EmulatorError, match="cartridge memory has 5 bytes, the game's has 32768"):
        emulator.load(dataclasses.replace(emulator.save(), cartridge=b"12345"))


def test_what_a_process_did_before_does_not_show_in_a_game(core, machine):
    """fceumm gives a cartridge memory that it never cleared."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
    libc.memset.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
    states = []
    for filling in (0x11, 0x77, 0xEE):
        blocks = [(libc.malloc(size), size) for size in (1024, 2048, 8192, 32768, 65536) for _ in range(6)]
        for block, size in blocks:
            libc.memset(block, filling, size)
        for block, _ in blocks:
            libc.free(block)
        states.append(comparable(core, machine(core, save=True).save()))
    assert states[0] == states[1] == states[2]
