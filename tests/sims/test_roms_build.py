"""The committed ROMs are what their sources give, and their documented memory is where the linker put it."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from missing import skip_missing
from ninelives.sims.games import errand, lantern
from ninelives.sims.games.registry import DATA, GAMES

ROOT = Path(__file__).parents[2]
NINTENDO_LOGO = slice(0x04, 0xA0)


@pytest.fixture(scope="module")
def compilers():
    """Which program, and which version of it, made each committed ROM."""
    code = "import sys; sys.path.insert(0, 'roms'); import build, json; print(json.dumps(build.COMPILERS))"
    return json.loads(subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True))


@pytest.fixture(scope="module")
def built(tmp_path_factory, compilers):
    """Builds a game once and returns the folder with its ROM and symbols."""
    done = {}

    def build(game):
        program, version = compilers[game]
        if shutil.which(program) is None:
            skip_missing(f"{program} is not installed")
        said = subprocess.run([program, "--version"], capture_output=True, text=True)
        if version not in said.stdout + said.stderr:
            pytest.skip(f"{program} is not version {version}: another compiler gives other bytes")
        if game not in done:
            done[game] = tmp_path_factory.mktemp(game)
            command = [sys.executable, "-B", "roms/build.py", game, "--symbols", "--out", str(done[game])]
            subprocess.run(command, cwd=ROOT, check=True, timeout=60)
        return done[game]

    return build


@pytest.mark.parametrize(("game", "rom"), [("errand", "errand.gba"), ("lantern", "lantern.nes")])
def test_a_rebuilt_rom_is_the_committed_one(built, game, rom):
    assert (built(game) / rom).read_bytes() == (DATA / rom).read_bytes()


def test_the_addresses_of_the_errand_are_the_linkers(built):
    symbols = json.loads((built("errand") / "errand.json").read_text())
    told = {
        "gSaveBlock1Ptr": errand.SAVE_BLOCK_1,
        "gSaveBlock2Ptr": errand.SAVE_BLOCK_2,
        "gRng": errand.MEMORY.fields["rng"].address,
        "gMain": errand.MAIN,
        "gMap": errand.MAP,
        "gTrail": errand.TRAIL,
        "gMovers": errand.MOVERS,
        "gMoverCount": errand.MOVERS + 64,
    }
    assert {name: symbols[name] for name in told} == told


def test_the_addresses_of_lantern_are_the_linkers(built):
    symbols = json.loads((built("lantern") / "lantern.json").read_text())
    names = {name: {"y": "y_pos"}.get(name, name) for name in lantern.FIELDS}
    assert {name: lantern.FIELDS[name].address for name in names} == {
        name: symbols[symbol] for name, symbol in names.items()
    }


@pytest.mark.parametrize("game", ["errand", "lantern"])
def test_the_written_layout_names_the_linkers_addresses(built, game):
    symbols = json.loads((built(game) / f"{game}.json").read_text())
    page = (ROOT / "roms" / game / "MEMORY.md").read_text()
    pattern = r"(0[23][0-9A-F]{6})\s+(g\w+)" if game == "errand" else r"\| ([0-9A-F]{2})[^|]*\| (\w+)"
    named = {name: int(address, 16) for address, name in re.findall(pattern, page)}
    assert len(named) > 5
    assert named == {name: symbols[name] for name in named}


def test_the_gba_cartridge_is_in_order_and_holds_nothing_of_anybody_elses():
    rom = (DATA / "errand.gba").read_bytes()
    assert len(rom) <= 32 * 1024
    assert rom[0xA0:0xB2] == b"ROOKSERRAND\0ARKE00"
    assert rom[0xB2] == 0x96
    assert (sum(rom[0xA0:0xBE]) + 0x19) & 0xFF == 0
    assert not any(rom[NINTENDO_LOGO])
    assert rom.find(b"SRAM_V") % 4 == 0


def test_the_nes_cartridge_is_in_order():
    rom = (DATA / "lantern.nes").read_bytes()
    assert rom[:8] == b"NES\x1a\x01\x01\x01\x00"
    assert len(rom) == 16 + 16 * 1024 + 8 * 1024


def test_every_rom_that_is_said_to_come_with_the_package_does():
    assert all((DATA / game.rom).is_file() for game in GAMES if game.rom)
