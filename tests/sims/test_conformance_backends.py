"""What every backend promises, on every emulator that is installed: one suite for all."""

from __future__ import annotations

import dataclasses
import gc
import random
import re
from dataclasses import dataclass

import numpy as np
import pytest
from gazing import PADS, play, sight
from installed import WANTED, core_named
from tiny_games import FIRST
from tiny_roms import ROMS

from missing import skip_missing
from ninelives.errors import ClosedError, EmulatorError
from ninelives.sims.emulators.backends import open_emulator
from ninelives.sims.emulators.machine import BUTTONS, pad_of
from ninelives.testing.natural import BOOT, ERRAND, LANTERN

PACKAGES = {"bindings-gba": ("bindings:mgba", "gba"), "bindings-gb": ("bindings:mgba", "gb"), "cynes": ("cynes", "nes")}
"""Backends that are packages of their own."""

GAMES = {"gba": ERRAND, "nes": LANTERN}
WITH_GAMES = ["mgba-new", "mgba-old", "bindings-gba", "fceumm", "cynes"]
MOVES = {"right": (1, 0), "left": (-1, 0), "down": (0, 1), "up": (0, -1)}
STEPS = 8


@dataclass(frozen=True)
class Backend:
    """An emulator by the name that ``open_emulator`` knows, and a machine it can be."""

    core: str
    system: str

    def variable(self, emulator, number):
        """One of the tiny game's variables: 0 frame, 1 x, 2 y."""
        first, size, _ = FIRST[self.system]
        return int.from_bytes(emulator.memory.view(first + size * number, size).tobytes(), "little")

    def place(self, emulator):
        return self.variable(emulator, 1), self.variable(emulator, 2)


@pytest.fixture(params=[*WANTED, *PACKAGES])
def backend(request, tmp_path):
    if request.param in WANTED:
        core = core_named(request.param)
        return Backend(str(core.path), core.system)
    chosen = Backend(*PACKAGES[request.param])
    rom = tmp_path / f"probe.{chosen.system}"
    rom.write_bytes(ROMS[chosen.system]())
    if chosen not in _probed:
        try:
            open_emulator(rom, core=chosen.core).close()
            _probed[chosen] = None
        except EmulatorError as error:
            _probed[chosen] = error
    if _probed[chosen] is not None:
        skip_missing(_probed[chosen])
    return chosen


_probed: dict[Backend, EmulatorError | None] = {}
"""Why a package cannot be used; None if it can."""


@pytest.fixture
def machine(backend, tmp_path):
    """Opens tiny games: ``machine(frame_skip=4, save=True)``. All are closed at the end."""
    opened = []

    def open_one(frame_skip=2, **kind):
        path = tmp_path / f"tiny{len(opened)}.{backend.system}"
        path.write_bytes(ROMS[backend.system](**kind))
        opened.append(open_emulator(path, frame_skip=frame_skip, core=backend.core))
        return opened[-1]

    yield open_one
    for emulator in opened:
        emulator.close()


@pytest.fixture
def begun(machine):
    """A machine that has run, and its state: where play begins that is to be the same twice."""
    emulator = machine()
    emulator.advance(20, 0)
    return emulator, emulator.save()


# ---- states ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("save", [False, True], ids=["plain", "cartridge"])
def test_play_goes_on_exactly_from_a_state_in_the_same_and_in_a_fresh_instance(machine, save):
    emulator, fresh = machine(save=save), machine(save=save)
    emulator.advance(20, 0)
    play(emulator, 1, STEPS)
    state, there = emulator.save(), sight(emulator)
    expected = play(emulator, 2, STEPS)
    assert len({tuple(seen.values()) for seen in expected}) == STEPS, "hardly anything happens in this game"
    for other in (emulator, fresh):
        other.load(state)
        assert sight(other) == there
        assert play(other, 2, STEPS) == expected


@pytest.mark.parametrize("backend", WITH_GAMES, indirect=True)
def test_a_whole_game_with_sprites_and_scrolling_goes_on_exactly_too(backend):
    emulator, fresh = (open_emulator(GAMES[backend.system], core=backend.core, frame_skip=4) for _ in range(2))
    for name, frames in BOOT:
        emulator.advance(frames, pad_of(*([name] if name != "noop" else [])))
    play(emulator, 1, STEPS)
    state = emulator.save()
    expected = play(emulator, 2, STEPS)
    for other in (emulator, fresh):
        other.load(state)
        assert play(other, 2, STEPS) == expected
        other.close()


def test_a_state_taken_before_the_cartridge_was_written_brings_its_emptiness_back(machine):
    emulator = machine(save=True)
    state = emulator.save()
    emulator.load(state)
    expected = play(emulator, 1, STEPS)
    play(emulator, 2, STEPS)
    emulator.load(state)
    assert play(emulator, 1, STEPS) == expected


def told(state):
    """A state without what gambatte leaves to chance: the palette of a game without colours, which it never sets."""
    return dataclasses.replace(state, core=re.sub(rb"(dmgpal\0\0\0\x18).{24}", rb"\1", state.core, flags=re.DOTALL))


def test_saving_changes_nothing_and_says_the_same_twice(begun):
    emulator, state = begun
    expected = play(emulator, 1, STEPS)
    emulator.load(state)
    assert told(emulator.save()) == told(emulator.save())
    chance = random.Random(1)
    for seen in expected:
        emulator.save()
        emulator.step(chance.choice(PADS))
        assert sight(emulator) == seen


def test_a_loaded_state_shows_its_own_picture_and_holds_its_own_pad(begun):
    emulator, _ = begun
    emulator.step(pad_of("right"))
    picture, state = emulator.picture().pixels.tobytes(), emulator.save()
    emulator.advance(3, 0)
    assert emulator.picture().pixels.tobytes() != picture
    emulator.load(state)
    assert emulator.picture().pixels.tobytes() == picture
    assert emulator.save().pad == state.pad == pad_of("right")


INVALID = ({"core": b""}, {"core": b"nonsense" * 100}, {"pixels": b"short"}, {"shape": (1, 2, 3)}, {"layout": "mauve"})


def test_an_invalid_state_is_refused_and_play_goes_on(begun):
    emulator, state = begun
    expected = play(emulator, 1, STEPS)
    for change in INVALID:
        emulator.load(state)
        with pytest.raises(EmulatorError):
            emulator.load(dataclasses.replace(state, **change))
        assert play(emulator, 1, STEPS) == expected, change


# ---- frames and pads ------------------------------------------------------------------------------------------------


def test_a_step_is_as_many_frames_run_one_by_one(machine, begun):
    _, state = begun
    in_steps, at_once, one_by_one = machine(frame_skip=4), machine(), machine(frame_skip=1)
    for emulator in (in_steps, at_once, one_by_one):
        emulator.load(state)
    for pad in PADS[:5]:
        in_steps.step(pad)
        at_once.advance(4, pad)
        for _ in range(4):
            one_by_one.step(pad)
        assert sight(in_steps) == sight(at_once) == sight(one_by_one)


def test_any_number_of_frames_ends_with_a_drawn_one(machine, begun):
    _, state = begun
    in_one, drawn = machine(frame_skip=4), machine(frame_skip=1)
    for emulator in (in_one, drawn):
        emulator.load(state)
    for frames in (1, 3, 7):
        in_one.advance(frames, 0)
        for _ in range(frames):
            drawn.step(0)
        in_one.step(0)
        drawn.advance(4, 0)
        assert sight(in_one) == sight(drawn)
    with pytest.raises(EmulatorError, match="at least one frame"):
        in_one.advance(0, 0)


def test_every_direction_goes_where_it_says(backend, begun):
    emulator, state = begun
    width = 0x80 if backend.system == "gba" else 0x100
    for direction, move in MOVES.items():
        emulator.load(state)
        x, y = backend.place(emulator)
        frame = backend.variable(emulator, 0)
        emulator.advance(5, pad_of(direction))
        emulator.advance(2, 0)  # a game may see the pad a frame later
        assert backend.variable(emulator, 0) - frame == 7
        moved = [(now - then) % width for now, then in zip(backend.place(emulator), (x, y), strict=True)]
        assert moved == [change * 5 % width for change in move], direction


def test_every_button_is_a_button_of_its_own_and_others_are_none(backend, begun):
    emulator, state = begun
    visible = [name for name in emulator.buttons if backend.system != "gb" or name in MOVES]  # that game reads no more

    def after(name):
        emulator.load(state)
        emulator.advance(4, pad_of(name))
        first, size, _ = FIRST[backend.system]
        return emulator.memory.view(first, size * 5).tobytes()

    seen = {name: after(name) for name in BUTTONS}
    emulator.load(state)
    emulator.advance(4, 0)
    first, size, _ = FIRST[backend.system]
    nothing = emulator.memory.view(first, size * 5).tobytes()
    assert len({seen[name] for name in visible} | {nothing}) == len(visible) + 1
    assert {seen[name] for name in BUTTONS if name not in emulator.buttons} <= {nothing}


# ---- memory ---------------------------------------------------------------------------------------------------------


def test_a_view_is_live_and_cannot_be_written(backend, begun):
    emulator, state = begun
    view = emulator.memory.view(FIRST[backend.system][0], 16)
    before = view.copy()
    emulator.step(pad_of("right"))
    assert not np.array_equal(view, before)
    emulator.load(state)
    assert np.array_equal(view, before)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        view.setflags(write=True)


def test_memory_that_does_not_exist_is_refused_with_what_does(backend, begun):
    emulator, _ = begun
    for size in (0, -1):
        with pytest.raises(EmulatorError):
            emulator.memory.view(FIRST[backend.system][0], size)
    regions = emulator.memory.regions()
    assert all(emulator.memory.view(start, size).size == size for _, start, size in regions)
    with pytest.raises(EmulatorError, match=regions[0][0]):
        emulator.memory.view(0xFFFF_FF00, 4)


def test_a_view_outlives_its_machine(backend, begun):
    emulator, _ = begun
    view = emulator.memory.view(FIRST[backend.system][0], 16)
    last = view.tobytes()
    emulator.close()
    del emulator
    gc.collect()
    assert view.tobytes() == last


# ---- one beside the other -------------------------------------------------------------------------------------------


def test_machines_in_one_process_do_not_disturb_each_other(machine, begun):
    alone, state = begun
    expected = {}
    for seed in (1, 2):
        alone.load(state)
        expected[seed] = play(alone, seed, STEPS)
    pair = {seed: machine() for seed in (1, 2)}
    chances = {seed: random.Random(seed) for seed in pair}
    for emulator in pair.values():
        emulator.load(state)
    for step in range(STEPS):
        for seed, emulator in pair.items():
            emulator.step(chances[seed].choice(PADS))
            assert sight(emulator) == expected[seed][step]


def test_the_users_files_keep_their_bytes(backend, tmp_path):
    place = tmp_path / "mine"
    place.mkdir()
    rom, save = place / f"game.{backend.system}", place / "game.sav"
    rom.write_bytes(ROMS[backend.system](save=True))
    save.write_bytes(b"a long evening" * 100)
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    with_save = open_emulator(rom, core=backend.core, frame_skip=2)
    save.unlink()
    without = open_emulator(rom, core=backend.core, frame_skip=2)
    save.write_bytes(before["game.sav"])
    with_save.load(without.save())
    assert play(with_save, 1, STEPS) == play(without, 1, STEPS)
    with_save.close()
    without.close()
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before


# ---- beginning and end ----------------------------------------------------------------------------------------------


def test_it_says_what_it_is(backend, begun):
    emulator, _ = begun
    assert emulator.identity.system == backend.system
    assert emulator.identity.core
    assert emulator.identity.version
    assert len(emulator.identity.rom_sha256) == 64
    assert 59 < emulator.frames_per_s < 61
    assert set(MOVES) < set(emulator.buttons) < set(BUTTONS)


def test_after_close_it_says_so_and_closing_again_does_no_harm(backend, begun):
    emulator, state = begun
    emulator.close()
    emulator.close()
    for call in (
        lambda: emulator.step(0), lambda: emulator.advance(1, 0), emulator.picture, emulator.save,
        lambda: emulator.load(state), lambda: emulator.memory.view(FIRST[backend.system][0], 1),
        emulator.memory.regions,
    ):  # fmt: skip
        with pytest.raises(ClosedError, match="closed"):
            call()


def test_rubbish_is_refused(backend, tmp_path):
    rom = tmp_path / f"rubbish.{backend.system}"
    for rubbish in (b"", b"hello world" * 5000, random.Random(1).randbytes(70_000)):
        rom.write_bytes(rubbish)
        with pytest.raises(EmulatorError):
            open_emulator(rom, core=backend.core)


def test_the_first_picture_is_black_and_has_its_final_shape(machine):
    emulator = machine()
    first = emulator.picture().pixels
    assert not first.any()
    shape = first.shape
    emulator.advance(30, 0)
    assert (emulator.picture().pixels.shape, emulator.picture().pixels.dtype) == (shape, first.dtype)
    assert emulator.picture().pixels.any()
