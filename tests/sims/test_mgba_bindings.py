"""What is special about the mgba bindings: what they need, what they must not show, and that they leave nothing."""

import gc
import os
import subprocess
import sys
import time

import pytest
from gazing import play, sight
from installed import core_named, require_bindings
from own_python import run_program
from tiny_roms import gb_rom, gba_rom

from ninelives.errors import EmulatorError
from ninelives.sims.emulators.backends import open_emulator
from ninelives.sims.emulators.mgba import MgbaEmulator

CLOCK = 0x02000014


@pytest.fixture(scope="module", autouse=True)
def _bindings():
    require_bindings()


@pytest.fixture
def rom(tmp_path):
    def write(data, name="tiny.gba"):
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write


def test_it_plays_as_the_libretro_core_of_the_same_version_does(rom):
    path = rom(gba_rom(save=True))
    ours = MgbaEmulator(path, frame_skip=4)
    theirs = open_emulator(path, core=str(core_named("mgba-new").path), frame_skip=4)
    for emulator in (ours, theirs):
        emulator.advance(8, 0)
    seen = [[sight["ewram"] for sight in play(emulator, 3, steps=50)] for emulator in (ours, theirs)]
    ours.close()
    theirs.close()
    assert len(set(seen[0])) == 50
    assert seen[0] == seen[1]


def test_a_cartridges_clock_counts_frames_and_not_the_hosts_time(rom):
    path = rom(gba_rom(clock=True))

    def times():
        emulator = MgbaEmulator(path, frame_skip=60)
        for _ in range(5):
            emulator.step(0)
            yield emulator.memory.view(CLOCK, 4).tobytes()
        emulator.close()

    first = list(times())
    time.sleep(1.1)  # so that a clock that looks at the host's would show another second
    assert list(times()) == first
    assert len(set(first)) == 5


def test_machines_come_and_go_without_a_trace(rom):
    path = rom(gba_rom(save=True))

    def visit(times):
        for _ in range(times):
            emulator = MgbaEmulator(path, frame_skip=2)
            play(emulator, 1, steps=2)
            emulator.close()
        del emulator
        gc.collect()
        return resident_kb(), len(os.listdir("/proc/self/fd"))

    visit(20)
    memory, files = visit(20)
    more_memory, more_files = visit(60)
    assert more_files == files
    assert more_memory - memory < 60 * 15, "a machine leaves more than 15 kB behind; the bindings' own left 30 to 63"


def resident_kb():
    with open("/proc/self/statm") as numbers:
        return int(numbers.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def test_nothing_is_printed():
    program = f"""
        from pathlib import Path
        from ninelives.sims.emulators.mgba import MgbaEmulator
        emulator = MgbaEmulator(Path({str(mgba_game())!r}), frame_skip=60)
        for _ in range(5):
            emulator.step(0)
    """
    assert run(program) == ""


def mgba_game():
    """A game that calls the BIOS every frame."""
    from ninelives.testing.natural import ERRAND

    return ERRAND


def test_a_game_boy_of_both_kinds_is_known(rom):
    for colour, system in ((False, "gb"), (True, "gbc")):
        emulator = MgbaEmulator(rom(gb_rom(color=colour), f"tiny.{system}"), frame_skip=2)
        emulator.advance(10, 0)
        assert emulator.identity.system == system
        assert emulator.picture().pixels.shape == (144, 160, 3)
        assert sight(emulator)["wram"] != sight(after(emulator, 3))["wram"]
        emulator.close()


def after(emulator, frames):
    emulator.advance(frames, 0)
    return emulator


def test_a_cartridge_of_another_size_is_refused_and_play_goes_on(rom):
    path = rom(gba_rom(save=True))
    emulator, other = MgbaEmulator(path, frame_skip=2), MgbaEmulator(path, frame_skip=2)
    for machine in (emulator, other):
        play(machine, 1, steps=5)
    state = emulator.save()
    assert len(state.cartridge) == 32768
    with pytest.raises(EmulatorError, match="5 bytes, not 32768"):
        emulator.load(type(state)(**{**vars(state), "cartridge": b"12345"}))
    assert play(emulator, 2, steps=5) == play(other, 2, steps=5)
    emulator.close()
    other.close()


def test_a_newer_python_is_told_why_not():
    program = """
        import sys
        from ninelives.errors import EmulatorError
        from ninelives.sims.emulators import mgba
        sys.version_info = type("Version", (tuple,), {"major": 3, "minor": 12})((3, 12, 0))
        try:
            mgba.library()
        except EmulatorError as error:
            print(error)
    """
    told = run(program)
    assert "do not run on Python 3.12: they hang in their first frame" in told
    assert "libretro core" in told


def test_missing_bindings_are_answered_with_the_commands_that_install_them():
    program = """
        import sys
        sys.modules["mgba._pylib"] = None
        from ninelives.errors import EmulatorError
        from ninelives.sims.emulators import mgba
        try:
            mgba.library()
        except EmulatorError as error:
            print(error)
    """
    assert "pip install mgba, and apt-get install --no-install-recommends libmgba0.10" in run(program)


def run(program):
    """What a program printed, on either output."""
    done = run_program(program)
    return done.stdout + done.stderr


IN_A_BUSY_PROCESS = """
import datetime
capsule = datetime.datetime_CAPI
[hasattr(capsule, "anything") for _ in range(1000)]  # as libraries that share arrays do
from ninelives.sims.emulators.backends import open_emulator
from ninelives.sims.games.registry import rom_of
machine = open_emulator(rom_of("ninelives/Errand-v0"), core="bindings:mgba", frame_skip=4)
machine.step(0)
machine.load(machine.save())
machine.step(0)
"""


def test_a_process_that_has_looked_at_a_capsule_does_not_spin_in_the_library():
    subprocess.run([sys.executable, "-c", IN_A_BUSY_PROCESS], check=True, timeout=60)
