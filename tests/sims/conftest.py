"""Machines for tests, on every core that is installed or on one kind of it; and a game for ``nes_py``."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from installed import WANTED, TestedCore, core_named
from nes_games import require_nes_py
from stand_in_roms import mario_stand_in
from tiny_roms import ROMS

from ninelives.sims.emulators.backends import open_emulator


@pytest.fixture(scope="session", autouse=True)
def _modules_are_not_searched_for_garbage():
    """A closed machine is collected after almost every test here: looking through all modules would take a third."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(params=list(WANTED))
def core(request) -> TestedCore:
    return core_named(request.param)


@pytest.fixture(params=["mgba-new", "mgba-old"])
def mgba(request) -> TestedCore:
    return core_named(request.param)


@pytest.fixture
def new_mgba() -> TestedCore:
    return core_named("mgba-new")


@pytest.fixture
def old_mgba() -> TestedCore:
    return core_named("mgba-old")


@pytest.fixture(scope="session")
def runner_rom(tmp_path_factory):
    """The file of the game in ``nes_games``, where ``nes_py`` is installed."""
    require_nes_py()
    path = tmp_path_factory.mktemp("nes") / "runner.nes"
    path.write_bytes(mario_stand_in())
    return path


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
