"""Opening a game: the right machine, the right core, and plain words when something is missing or wrong."""

from __future__ import annotations

import glob
import importlib.util
import os
import weakref
from pathlib import Path

import pytest
from gazing import loaded_copies, sight
from installed import core_named
from tiny_roms import ROMS, gb_rom, gba_rom, nes_rom

from ninelives.errors import EmulatorError
from ninelives.sims.emulators import ines
from ninelives.sims.emulators.backends import best_core, open_emulator
from ninelives.sims.emulators.machine import BUTTONS, pad_of
from ninelives.sims.emulators.systems import has_clock, system_of
from ninelives.spec.context import SlotContext, enter_slot


@pytest.mark.parametrize(
    ("rom", "file_name", "system"),
    [
        (gba_rom(), "game.gba", "gba"),
        (gba_rom(), "game.bin", "gba"),
        (gba_rom(), "misnamed.nes", "gba"),
        (nes_rom(), "GAME", "nes"),
        (gb_rom(), "game.zip", "gb"),
        (gb_rom(color=True), "game", "gbc"),
        (bytes(1000), "homebrew.NES", "nes"),
        (bytes(0x100) + b"SEGA GENESIS".ljust(0x200), "game", "genesis"),
        (bytes(4096), "game.a26", "atari2600"),
    ],
)  # fmt: skip
def test_a_rom_says_which_machine_it_is_for(rom, file_name, system):
    assert system_of(rom, file_name) == system


def test_a_rom_that_says_nothing_needs_a_word():
    with pytest.raises(EmulatorError, match=r"game\.bin: neither its header nor its suffix .* system= to 'gba' or"):
        system_of(bytes(5000), "game.bin")


def test_an_archive_is_to_be_unpacked():
    with pytest.raises(EmulatorError, match=r"game\.gba is a zip archive; unpack it"):
        system_of(b"PK\x03\x04" + bytes(5000), "game.gba")


@pytest.mark.parametrize("size", [16, 17, 1000, 16400])
def test_a_nes_rom_that_was_torn_is_refused_on_every_core(tmp_path, size):
    rom = tmp_path / "torn.nes"
    rom.write_bytes(nes_rom()[:size])
    for core in (str(core_named("fceumm").path), "cynes"):
        with pytest.raises(EmulatorError, match=r"torn\.nes is truncated: its header says"):
            open_emulator(rom, core=core)


def test_the_second_format_of_nes_roms_has_larger_numbers():
    header = bytearray(nes_rom()[:16])
    header[7] |= 0x08
    ines.check(bytes(header) + bytes(0x4000 * header[4] + 0x2000 * header[5]), "whole.nes")
    header[9] = 0x01
    with pytest.raises(EmulatorError, match="truncated"):
        ines.check(bytes(header) + bytes(0x4000 * header[4] + 0x2000 * header[5]), "large.nes")


def test_a_cartridge_with_a_clock_gets_a_core_in_which_it_counts_frames(new_mgba):
    core_named("gambatte")
    assert best_core("gb", has_clock(gb_rom(), "gb")) == "gambatte"
    rom = bytearray(gb_rom())
    rom[0x147] = 0x10
    assert best_core("gb", has_clock(bytes(rom), "gb")) == "mgba"


def test_a_name_that_is_no_text_is_played_all_the_same(core, tmp_path):
    rom = os.path.join(os.fsencode(tmp_path), b"odd\xff." + core.system.encode())
    with open(rom, "wb") as file:
        file.write(ROMS[core.system]())
    open_emulator(os.fsdecode(rom), core=core.path).close()


def test_a_machine_without_a_place_for_its_files_says_so(core, tmp_path):
    rom = tmp_path / f"game.{core.system}"
    rom.write_bytes(ROMS[core.system]())
    with pytest.raises(EmulatorError, match=r"cannot create a directory for an emulator in .*nowhere: No such file"):
        open_emulator(rom, core=core.path, scratch=tmp_path / "nowhere")


def test_a_forked_process_leaves_its_parents_files_alone(core, machine, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    machine(core, scratch=scratch)
    child = os.fork()
    if not child:
        weakref.finalize._exitfunc()
        os._exit(0)
    os.waitpid(child, 0)
    assert list(scratch.iterdir())


def test_the_best_core_for_a_machine_is_chosen(new_mgba, tmp_path):
    core_named("fceumm")
    assert [best_core(system) for system in ("gba", "nes", "gb", "gbc")] == ["mgba", "fceumm", "gambatte", "gambatte"]
    rom = tmp_path / "game.gba"
    rom.write_bytes(gba_rom())
    emulator = open_emulator(rom, frame_skip=4)
    assert (emulator.identity.core, emulator.identity.system, emulator.frame_skip) == ("mGBA", "gba", 4)
    assert emulator.identity.version.startswith("0.10")
    assert emulator.buttons == ("b", "select", "start", "up", "down", "left", "right", "a", "l", "r")
    assert 59 < emulator.frames_per_s < 60
    emulator.close()


def test_the_pad_reaches_every_core(core, machine):
    place = {"gba": 0x02000004, "nes": 1, "gb": 0xC001}[core.system]
    emulator = machine(core)
    emulator.advance(20, 0)
    x = emulator.memory.view(place, 2)
    before = [int(value) for value in x]
    emulator.advance(5, pad_of("right"))
    assert int(x[0]) == before[0] + 5
    emulator.advance(3, pad_of("left"))
    assert int(x[0]) == before[0] + 2


def test_buttons_that_the_machine_does_not_have_do_nothing(core, machine):
    """Cores have turbo fire on them."""
    absent = pad_of(*(set(BUTTONS) - set(machine(core).buttons)))
    one, other = machine(core), machine(core)
    for held in (0, pad_of("right"), pad_of("a")):
        for _ in range(20):
            one.step(held)
            other.step(held | absent | 1 << 14)
            assert sight(one) == sight(other)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"rom": "nowhere.gba"}, "cannot read the ROM nowhere.gba: No such file"),
        ({"rom": "empty.gba"}, "empty.gba is empty"),
        ({"frame_skip": 0}, "frame_skip=0: must be a whole number"),
        ({"frame_skip": 2.5}, r"frame_skip=2\.5"),
        ({"system": "ps5"}, "system='ps5' is not known; choose one of gba, gb"),
        ({"core": "vba"}, r"no core named vba was found .* pip install 'ninelives\[cores\]'"),
        ({"core": "nestopia"}, "apt-get install libretro-nestopia"),
        ({"core": "/no/such_libretro.so"}, "there is no such file"),
    ],
)
def test_what_cannot_be_opened_is_refused_in_plain_words(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("game.gba").write_bytes(gba_rom())
    Path("empty.gba").write_bytes(b"")
    with pytest.raises(EmulatorError, match=f"(?s){words}"):
        open_emulator(**{"rom": "game.gba", **arguments})


def test_a_missing_core_names_every_way_to_get_it():
    with pytest.raises(EmulatorError) as refused:
        open_emulator(__file__, system="gba", core="nestopia")
    for way in ("pip install 'ninelives[cores]'", "apt-get install libretro-nestopia", "NINELIVES_CORES="):
        assert way in str(refused.value)


def test_a_game_that_the_core_refuses_leaves_nothing_behind(mgba, machine, tmp_path):
    scratch, before = tmp_path / "scratch", loaded_copies()
    scratch.mkdir()
    with pytest.raises(EmulatorError, match=r"mGBA .* rejects tiny0\.gba .* gba, gb"):
        machine(mgba, rom=nes_rom(), scratch=scratch)
    assert list(scratch.iterdir()) == []
    assert loaded_copies() == before


def test_inside_a_worker_files_go_to_the_slots_scratch(core, machine, tmp_path):
    scratch = tmp_path / "slot"
    scratch.mkdir()
    enter_slot(SlotContext(3, 0, scratch, tmp_path))
    try:
        emulator = machine(core)
    finally:
        enter_slot(None)
    assert len(list(scratch.iterdir())) == 1
    emulator.close()
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("name", ["genesis_plus_gx", "picodrive"])
def test_a_core_that_wants_a_path_gets_a_copy_of_its_own(name, tmp_path):
    """These also call functions and compare strings that a lesser host does not give them."""
    core_named("mgba-old")
    package = importlib.util.find_spec("stable_retro").submodule_search_locations[0]
    (rom,) = glob.glob(f"{package}/data/*/Airstriker*/rom.md")
    emulators = [open_emulator(rom, core=name, frame_skip=4, scratch=tmp_path) for _ in range(2)]
    copies = [copy.read_bytes() for copy in tmp_path.rglob("rom.md")]
    assert copies == [Path(rom).read_bytes()] * 2
    for _ in range(40):
        for emulator in emulators:
            emulator.step(0)
    one, other = (emulator.picture().pixels for emulator in emulators)
    assert one.tobytes() == other.tobytes() != bytes(one.nbytes)
    for emulator in emulators:
        emulator.close()
