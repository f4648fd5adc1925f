"""Cores are found where they are promised to be found, in that order, and a broken one is refused in plain words."""

from __future__ import annotations

import ctypes
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import ninelives
from ninelives.cli.main import main
from ninelives.errors import EmulatorError, NinelivesWarning
from ninelives.sims.libretro import elf, library
from ninelives.sims.libretro.cores import find_core, found_cores
from ninelives.sims.libretro.probe import examine
from ninelives.spec.context import SlotContext, enter_slot

LOADED, EXECUTABLE = 1, 1


def segments(data):
    """Place and size in the file of everything that is loaded and can be executed."""
    at, size, number = struct.unpack_from("<Q14xHH", data, 32)
    for index in range(number):
        kind, flags, offset, _, _, in_file = struct.unpack_from("<IIQQQQ", data, at + index * size)
        if kind == LOADED and flags & EXECUTABLE:
            yield offset, in_file


def with_code(core, place, code):
    """A copy of a core whose whole code is ``code`` again and again."""
    data = bytearray(core.path.read_bytes())
    for offset, size in segments(data):
        data[offset : offset + size] = (code * size)[:size]
    place.write_bytes(data)
    copy_libraries(core, place.parent)
    return place


def copy_libraries(core, directory):
    """What an unpacked core needs lies beside it."""
    for file in core.path.parent.glob("libinih.so*"):
        shutil.copy(file, directory)


# ---- finding -----------------------------------------------------------------------------------------------------


def test_the_variable_comes_first_and_may_name_directories_and_files(new_mgba, old_mgba, tmp_path):
    directory, file = tmp_path / "mine", tmp_path / "elsewhere" / "special_libretro.so"
    directory.mkdir()
    file.parent.mkdir()
    shutil.copy(old_mgba.path, directory / "mgba_libretro.so")
    shutil.copy(old_mgba.path, file)
    with pytest.warns(NinelivesWarning, match="missing, which does not exist"):
        found = found_cores({"NINELIVES_CORES": f"{directory}:{file}:{tmp_path / 'missing'}::{new_mgba.path}"})
    assert [core.name for core in found[:3]] == ["mgba", "special", "mgba"]
    assert {core.source for core in found[:3]} == {"environment"}
    assert find_core("mgba", {"NINELIVES_CORES": f"{directory}:{new_mgba.path}"}).path == directory / "mgba_libretro.so"
    assert find_core("mgba", {"NINELIVES_CORES": f"{new_mgba.path}:{directory}"}).path == new_mgba.path


def test_without_the_variable_cores_of_stable_retro_are_found(old_mgba):
    found = {core.name: core.source for core in found_cores({})}
    assert found["fceumm"] == found["gambatte"] == "stable-retro"


def test_a_file_is_listed_once(old_mgba):
    paths = [core.path for core in found_cores({"NINELIVES_CORES": f"{old_mgba.path}:{old_mgba.path.parent}"})]
    assert len(paths) == len(set(paths))
    assert paths[0] == old_mgba.path


def test_a_path_is_taken_as_it_is(old_mgba, tmp_path, monkeypatch):
    shutil.copy(old_mgba.path, tmp_path / "mine_libretro.so")
    monkeypatch.chdir(tmp_path)
    core = find_core("mine_libretro.so")
    assert (core.name, core.source) == ("mine", "argument")


def test_a_link_is_found_by_its_own_name(old_mgba, tmp_path):
    shutil.copy(old_mgba.path, tmp_path / "mgba-0.7_libretro.so")
    (tmp_path / "mgba_libretro.so").symlink_to("mgba-0.7_libretro.so")
    assert find_core("mgba", {"NINELIVES_CORES": str(tmp_path)}).path == tmp_path / "mgba_libretro.so"


def test_paths_are_those_of_the_directory_the_program_was_started_in(old_mgba, tmp_path):
    """A worker's own directory is another."""
    started_in, scratch = tmp_path / "project", tmp_path / "scratch"
    (started_in / "cores").mkdir(parents=True)
    scratch.mkdir()
    shutil.copy(old_mgba.path, started_in / "cores" / "mgba_libretro.so")
    enter_slot(SlotContext(0, 1, scratch, started_in))
    try:
        by_argument = find_core("cores/mgba_libretro.so", {})
        by_variable = find_core("mgba", {"NINELIVES_CORES": "cores"})
    finally:
        enter_slot(None)
    assert by_argument.path == by_variable.path == started_in / "cores" / "mgba_libretro.so"


def test_a_path_may_be_a_path(old_mgba):
    assert find_core(old_mgba.path).path == old_mgba.path


# ---- broken files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [0.0, 0.00001, 0.001, 0.25, 0.5, 0.9, 0.99999])
def test_a_core_that_is_cut_off_is_refused(mgba, tmp_path, part):
    """The system's loader would end the process."""
    data = mgba.path.read_bytes()
    cut = tmp_path / "cut_libretro.so"
    cut.write_bytes(data[: int(len(data) * part)])
    with pytest.raises(EmulatorError, match=r"cut_libretro\.so cannot be loaded: it (has only|is cut off)"):
        library.load(cut, tmp_path)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"<html>404 not found</html>".ljust(500), "no ELF header"),
        (b"\x7fELF\x01\x01".ljust(500, b"\0"), "not built for this machine"),
        (b"\x7fELF\x02\x01".ljust(18, b"\0") + b"\x08\x00".ljust(500, b"\0"), "not built for this machine"),
    ],
)
def test_a_file_that_is_no_library_of_this_machine_is_refused(tmp_path, data, words):
    file = tmp_path / "odd_libretro.so"
    file.write_bytes(data)
    with pytest.raises(EmulatorError, match=words):
        library.load(file, tmp_path)


def test_no_header_however_damaged_raises_anything_but_a_complaint(mgba):
    data = bytearray(mgba.path.read_bytes())
    assert elf.complaint_about(data) is None
    for place in range(64):
        for value in (0x00, 0x7F, 0xFF):
            before, data[place] = data[place], value
            elf.complaint_about(data)
            data[place] = before


def test_a_library_that_is_no_core_is_refused(tmp_path):
    import _ctypes

    with pytest.raises(EmulatorError, match=r"is not a libretro core: .* retro_api_version"):
        library.load(Path(_ctypes.__file__), tmp_path)


def test_a_core_whose_library_is_missing_names_it(new_mgba, tmp_path):
    data = new_mgba.path.read_bytes()
    core = tmp_path / "lonely_libretro.so"
    core.write_bytes(data.replace(b"libm.so.6\0", b"libx.so.6\0", 1))
    copy_libraries(new_mgba, tmp_path)
    with pytest.raises(EmulatorError, match=r"lonely_libretro\.so cannot be loaded: libx\.so\.6: cannot open"):
        library.load(core, tmp_path)


def test_a_library_is_taken_from_beside_the_core_that_needs_it(new_mgba):
    """Debian's core, unpacked and not installed, finds what was unpacked with it; in a process that has it not yet."""
    beside = new_mgba.path.parent / "libinih.so.1"
    if not beside.exists():
        pytest.skip("this core was installed with its libraries")
    report = examine(new_mgba.path)
    assert report.info is not None, report.problem
    assert ctypes.CDLL(str(beside))


def test_no_copy_of_a_core_stays_on_the_disk(core, machine, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    emulator = machine(core, scratch=scratch)
    assert not [path for path in scratch.rglob("*") if path.is_file()]
    emulator.close()


# ---- looking at cores from outside --------------------------------------------------------------------------------


def test_a_core_is_looked_at_in_another_process(core):
    report = examine(core.path)
    assert report.problem == ""
    assert core.system in report.info.extensions
    assert report.abilities.skips_drawing == (core.system == "gba")
    assert report.abilities.cartridge_in_state == (core.name == "mgba-new")
    assert report.abilities.clock_pinned == {"mgba-new": True, "fceumm": None}.get(core.name, False)


@pytest.mark.parametrize(
    ("code", "words"), [(b"\x0f\x0b", "crashes: SIGILL"), (b"\xeb\xfe", "does not answer within 2 s")]
)
def test_a_core_that_crashes_or_hangs_is_a_line_in_the_report(new_mgba, tmp_path, code, words):
    """The same file in this process would end it."""
    report = examine(with_code(new_mgba, tmp_path / "bad_libretro.so", code), timeout_s=2)
    assert report.info is None
    assert words in report.problem


def test_cores_are_listed(new_mgba, old_mgba, capsys):
    assert main(["cores", "mgba", "fceumm"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split("  ")[0]: line for line in lines}
    for words in ("0.10", "environment", "not drawn", "in its state", "counts frames", str(new_mgba.path)):
        assert words in rows["mgba"]
    for words in ("0.7.0", "stable-retro", "not drawn", "added to its state", "the host's", str(old_mgba.path)):
        assert words in rows["(mgba)"]
    assert "hidden by a core of the same name above" in lines[-1]
    assert "nes" in rows["fceumm"]


def test_a_broken_core_does_not_end_the_command(new_mgba, old_mgba, tmp_path, capsys):
    bad = with_code(new_mgba, tmp_path / "bad_libretro.so", b"\x0f\x0b")
    assert main(["cores", str(bad)]) == 1
    assert main(["cores", str(bad), str(old_mgba.path)]) == 0
    assert f"{bad}: crashes: SIGILL" in capsys.readouterr().out


def test_a_core_that_is_not_there_is_named(capsys):
    assert main(["cores", "nestopia"]) == 1
    assert "apt-get install libretro-nestopia" in capsys.readouterr().err


def test_the_host_is_imported_only_when_it_is_used():
    code = "import ninelives, sys; sys.exit(any(name.startswith('ninelives.sims.libretro') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert ninelives.__version__
