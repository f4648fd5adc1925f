"""What is special about cynes: what it would not notice is noticed for it."""

import numpy as np
import pytest
from own_python import run_program
from tiny_roms import nes_rom

from missing import require_module
from ninelives.errors import EmulatorError
from ninelives.sims.emulators.cynes import CynesEmulator

JAM = 0x02
"""An instruction at which a real processor stops for ever."""


@pytest.fixture(scope="module", autouse=True)
def _cynes():
    require_module("cynes")


@pytest.fixture
def emulator(tmp_path):
    opened = []

    def insert(data):
        path = tmp_path / "tiny.nes"
        path.write_bytes(data)
        opened.append(CynesEmulator(path, frame_skip=2, scratch=tmp_path))
        return opened[-1]

    yield insert
    for machine in opened:
        machine.close()


def test_a_processor_that_stands_still_is_an_error_and_not_a_frozen_picture(emulator):
    stopped = bytearray(nes_rom())
    stopped[16] = JAM
    machine = emulator(bytes(stopped))
    with pytest.raises(EmulatorError, match="an instruction that does not exist"):
        machine.advance(5, 0)


def test_a_rom_that_is_cut_short_never_reaches_it(emulator):
    whole = nes_rom()
    with pytest.raises(EmulatorError, match=f"its header says {len(whole)} bytes, but it has {len(whole) - 1}"):
        emulator(whole[:-1])
    with pytest.raises(EmulatorError, match="is not an NES ROM"):
        emulator(b"NES" + bytes(100))


def test_its_copy_of_the_rom_is_gone_at_once(emulator, tmp_path):
    emulator(nes_rom())
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.nes"]


def test_looking_at_memory_disturbs_nothing(emulator):
    """The places of memory in a state are found by writing; that must have been undone."""
    first, second = emulator(nes_rom(save=True)), emulator(nes_rom(save=True))
    second.load(first.save())
    for machine in (first, second):
        machine.advance(20, 0)
    cells = first.memory.view(0, 0x800).copy()
    assert np.array_equal(cells, second.memory.view(0, 0x800))
    assert [int(first._nes[address]) for address in range(0x800)] == cells.tolist()
    assert int(first._nes[0x6000]) == int(first.memory.view(0x6000, 1)[0])


def test_a_missing_package_is_answered_with_the_command_that_installs_it(tmp_path):
    (tmp_path / "tiny.nes").write_bytes(nes_rom())
    program = f"""
        import sys
        sys.modules["cynes"] = None
        from pathlib import Path
        from ninelives.errors import EmulatorError
        from ninelives.sims.emulators.cynes import CynesEmulator
        try:
            CynesEmulator(Path({str(tmp_path / "tiny.nes")!r}), frame_skip=2)
        except EmulatorError as error:
            print(error)
    """
    assert "pip install 'ninelives[nes]'" in run_program(program).stdout
