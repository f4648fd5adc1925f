"""The cores that tests run on: each kind once, found where a user's would be found."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from tiny_roms import ROMS

from rookery.sims.backends import open_emulator
from rookery.sims.libretro.cores import found_cores

REQUIRED = os.environ.get("ROOKERY_REQUIRE_CORES") == "1"
"""In CI a missing core is a failure: a test that is skipped there tests nobody's machine."""

WANTED = {
    "mgba-new": ("mgba", "gba", False),
    "mgba-old": ("mgba", "gba", True),
    "fceumm": ("fceumm", "nes", True),
    "gambatte": ("gambatte", "gb", True),
}
"""Name, machine and whether it comes with stable-retro, whose mGBA is old: states without cartridge and clock."""


@dataclass(frozen=True)
class TestedCore:
    """A core, and how to get a machine of it."""

    __test__ = False
    name: str
    path: Path
    system: str


def tested_core(name: str) -> TestedCore:
    wanted, system, from_stable_retro = WANTED[name]
    for core in found_cores():
        if core.name == wanted and (core.source == "stable-retro") == from_stable_retro:
            return TestedCore(name, core.path, system)
    missing = f"{name} is not installed; run .ci/cores and pip install 'rookery[cores]'"
    raise pytest.fail.Exception(missing) if REQUIRED else pytest.skip.Exception(missing)


@pytest.fixture(params=list(WANTED))
def core(request) -> TestedCore:
    return tested_core(request.param)


@pytest.fixture(params=["mgba-new", "mgba-old"])
def mgba(request) -> TestedCore:
    return tested_core(request.param)


@pytest.fixture
def new_mgba() -> TestedCore:
    return tested_core("mgba-new")


@pytest.fixture
def old_mgba() -> TestedCore:
    return tested_core("mgba-old")


@pytest.fixture
def machine(tmp_path):
    """Opens tiny games: ``machine(core, frame_skip=4, save=True)``. All are closed at the end."""
    opened = []

    def open_one(
        core: TestedCore, *, frame_skip: int = 1, scratch: Path | None = None, rom: bytes | None = None, **kind
    ):
        path = tmp_path / f"tiny{len(opened)}.{core.system}"
        path.write_bytes(rom if rom is not None else ROMS[core.system](**kind))
        opened.append(open_emulator(path, frame_skip=frame_skip, core=str(core.path), scratch=scratch))
        return opened[-1]

    yield open_one
    for emulator in opened:
        emulator.close()
