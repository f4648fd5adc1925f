"""Memory is read by bus address, through arrays that can neither write nor outlive what they show."""

from __future__ import annotations

import gc

import pytest
from gazing import loaded_copies
from installed import core_named
from tiny_roms import GBA_FRAME, GBA_X, gb_rom

from ninelives.errors import EmulatorError
from ninelives.sims.emulators.backends import open_emulator
from ninelives.sims.libretro.frontend import Descriptor
from ninelives.sims.libretro.memory import locate

RAM = {"gba": 0x02000000, "nes": 0x0000, "gb": 0xC000}


def test_no_more_memory_is_shown_than_the_machine_has(old_mgba, tmp_path):
    """This core tells of 256 KB for a Game Boy, which has 8."""
    rom = tmp_path / "game.gb"
    data = bytearray(gb_rom())
    data[0x104:0x108] = b"\xce\xed\x66\x66"  # how mGBA knows a Game Boy's ROM
    rom.write_bytes(data)
    emulator = open_emulator(rom, core=old_mgba.path)
    assert ("wram", 0xC000, 0x2000) in emulator.memory.regions()
    with pytest.raises(EmulatorError, match="no memory at"):
        emulator.memory.view(0xC000, 0x2001)
    emulator.close()


def test_a_view_outlives_its_emulator_and_keeps_the_core_loaded(core, machine):
    gc.collect()
    before = loaded_copies()
    emulator = machine(core)
    emulator.advance(20, 0)
    view = emulator.memory.view(RAM[core.system], 64)
    part = view[:4].view("<u4")[0:1]
    picture = emulator.picture().pixels[::2]
    expected = int(part[0]), picture.tobytes()
    emulator.close()
    del view, emulator
    gc.collect()
    assert (int(part[0]), picture.tobytes()) == expected
    assert len(loaded_copies() - before) == 1
    del part, picture
    assert loaded_copies() == before


def test_both_kinds_of_ram_of_a_gba_are_there(mgba, machine):
    emulator = machine(mgba)
    emulator.advance(9, 0)
    assert emulator.memory.view(GBA_FRAME, 4).view("<u4")[0] == emulator.memory.view(0x03000000, 4).view("<u4")[0] > 0
    assert emulator.memory.view(GBA_X, 4).view("<u4")[0] == 120
    assert emulator.memory.view(0x02000000, 0x40000).size == 0x40000
    assert emulator.memory.view(0x080000AC, 4).tobytes() == b"TINY"
    assert {name: size for name, _, size in emulator.memory.regions()}.items() >= {
        "ewram": 0x40000,
        "iwram": 0x8000,
    }.items()


def test_mirrors_show_the_same_bytes(mgba, machine):
    emulator = machine(mgba)
    emulator.advance(9, 0)
    assert emulator.memory.view(0x02040000, 64).tobytes() == emulator.memory.view(0x02000000, 64).tobytes()
    assert emulator.memory.view(0x03FF8000, 4).tobytes() == emulator.memory.view(0x03000000, 4).tobytes()


def test_the_whole_ram_of_a_nes_is_one_piece_with_its_mirrors(machine):
    emulator = machine(core_named("fceumm"))
    emulator.advance(30, 0)
    ram = emulator.memory.view(0x0000, 0x800)
    assert ram[0] > 0
    assert emulator.memory.view(0x0800, 0x800).tobytes() == ram.tobytes()
    assert emulator.memory.view(0x1FF0, 16).tobytes() == ram[-16:].tobytes()


def test_a_cartridge_that_would_be_shown_stale_is_not_shown(new_mgba, old_mgba, machine):
    new, old = machine(new_mgba, save=True), machine(old_mgba, save=True)
    old.advance(5, 0)
    assert old.memory.view(0x0E000011, 1)[0] == old.memory.view(0x0200000C, 1)[0]
    with pytest.raises(EmulatorError, match="no memory at 0xE000000"):
        new.memory.view(0x0E000000, 1)


def test_addresses_without_memory_are_refused_with_the_regions_that_exist(mgba, machine):
    memory = machine(mgba).memory
    for address, size in ((0x01000000, 4), (0x0203FFFE, 4), (-4, 4), (0x02000000, 0), (1 << 40, 1)):
        with pytest.raises(EmulatorError, match=r"ewram 0x2000000\.\.0x203FFFF, iwram 0x3000000"):
            memory.view(address, size)


def test_pieces_that_lie_side_by_side_are_one_and_others_are_not():
    def piece(start, pointer, select=0, disconnect=0):
        return Descriptor(start, 0x400, pointer, select, disconnect, constant=False)

    beside = (piece(0, 5000), piece(0x400, 5000 + 0x400), piece(0x800, 90000))
    assert locate(beside, 0x3FE, 4) == 5000 + 0x3FE
    assert locate(beside, 0x3FE, 0x402) == 5000 + 0x3FE
    assert locate(beside, 0x7FE, 4) is None
    mirrored = (piece(0, 5000, select=0xE000),)
    assert locate(mirrored, 0x1C01, 4) == 5001
    assert locate(mirrored, 0x2000, 1) is None
    assert locate((piece(0, 5000, select=0xF000, disconnect=0x800),), 0x801, 1) == 5001
