"""Several machines in one process are as separate as several processes; their files too."""

from __future__ import annotations

import gc
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from gazing import codes_of_copies, loaded_copies, maps_of_cores, play, playing, sight
from installed import core_named
from tiny_roms import GBA_HELD, gba_rom

from ninelives.sims.emulators.backends import open_emulator
from ninelives.sims.emulators.machine import pad_of
from ninelives.sims.libretro import library
from ninelives.sims.libretro.game import info_of

INSTANCES = 300 if os.environ.get("NINELIVES_FULL") == "1" else 30
LEAK_BYTES = 4_000_000


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("save", [False, True])
def test_machines_in_one_process_do_not_disturb_each_other(core, machine, save):
    alone = [list(playing(machine(core, frame_skip=3, save=save), seed)) for seed in range(3)]
    together = [machine(core, frame_skip=3, save=save) for _ in range(3)]
    taking_turns = zip(*(playing(emulator, seed) for seed, emulator in enumerate(together)), strict=True)
    assert list(taking_turns) == list(zip(*alone, strict=True))


def test_machines_run_in_threads_side_by_side(mgba, machine):
    alone = [play(machine(mgba, frame_skip=4), seed) for seed in (1, 2)]
    emulators = [machine(mgba, frame_skip=4) for _ in (1, 2)]
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(play, emulators, (1, 2))) == alone


def test_many_machines_fit_into_one_process(new_mgba, machine):
    gc.collect()  # machines of other tests, which hold what is shared
    descriptors = len(os.listdir("/proc/self/fd"))
    first = machine(new_mgba)
    expected = [first.step(16) or sight(first) for _ in range(3)]
    emulators = [machine(new_mgba) for _ in range(INSTANCES - 1)]
    assert len(os.listdir("/proc/self/fd")) == descriptors + 2, "code of the core and of its frames, for all"
    for seen in expected:
        for emulator in emulators:
            emulator.step(16)
        assert all(sight(emulator) == seen for emulator in emulators[:: INSTANCES // 20])


def test_machines_of_one_core_run_the_same_code_and_write_to_memory_of_their_own(core, machine):
    codes, copies = codes_of_copies(), loaded_copies()
    emulators = [machine(core) for _ in range(3)]
    assert len(codes_of_copies() - codes) == 1, "\n".join(maps_of_cores())
    assert len(loaded_copies() - copies) == 3
    expected = play(emulators[1], 1)
    emulators[0].close()
    assert play(emulators[2], 1) == expected, "the code stays when the machine that was first is gone"
    assert play(machine(core), 1) == expected


def test_another_file_in_the_same_place_runs_its_own_code(tmp_path):
    """A core that is updated while a program runs."""
    place = tmp_path / "place_libretro.so"
    cores = []
    for source in (core_named("fceumm").path, core_named("gambatte").path):
        place.unlink(missing_ok=True)
        place.write_bytes(source.read_bytes())
        cores.append(library.load(place, tmp_path))
    try:
        assert [info_of(loaded).name for loaded in cores] == ["FCEUmm", "Gambatte"]
    finally:
        for loaded in cores:
            library.unload(loaded)


def test_a_closed_machine_gives_its_memory_back(core, machine):
    for _ in range(3):
        machine(core).close()
    gc.collect()
    copies, before = loaded_copies(), resident_bytes()
    for _ in range(30):
        emulator = machine(core)
        emulator.step(0)
        emulator.close()
    gc.collect()
    assert loaded_copies() == copies
    assert resident_bytes() - before < LEAK_BYTES


def test_two_games_on_one_rom_never_see_each_others_save(mgba, tmp_path):
    rom = tmp_path / "game.gba"
    rom.write_bytes(gba_rom(save=True))
    emulators = [open_emulator(rom, core=str(mgba.path), frame_skip=2) for _ in range(3)]
    pads = [pad_of("right"), pad_of("right"), pad_of("left")]
    held = [[], [], []]
    for _ in range(50):
        for emulator, pad, values in zip(emulators, pads, held, strict=True):
            emulator.step(pad)
            values.append(int(emulator.memory.view(GBA_HELD, 1)[0]))
    for emulator in emulators:
        emulator.close()
    assert held[0] == held[1] != held[2]


def test_the_users_files_are_neither_read_nor_written(core, machine, tmp_path):
    folder = tmp_path / "games"
    folder.mkdir()
    rom, save = folder / f"game.{core.system}", folder / "game.sav"
    plain = machine(core, save=True)
    rom.write_bytes((tmp_path / f"tiny0.{core.system}").read_bytes())
    rom.chmod(0o444)
    save.write_bytes(b"precious" * 4096)
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}
    emulator = open_emulator(rom, core=str(core.path))
    assert play(emulator, 5) == play(plain, 5)
    emulator.load(emulator.save())
    emulator.close()
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()} == before


def test_files_of_a_machine_are_in_a_directory_of_its_own_and_gone_with_it(core, machine, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    emulators = [machine(core, scratch=scratch) for _ in range(2)]
    assert len(list(scratch.iterdir())) == 2
    for emulator in emulators:
        emulator.step(0)
        emulator.close()
        emulator.close()
    assert list(scratch.iterdir()) == []
