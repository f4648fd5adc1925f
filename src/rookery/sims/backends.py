"""Opens a game on the best emulator there is for it. Knows the backends by name and loads one only when it is used."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

from rookery.errors import EmulatorError, UsageError
from rookery.sims.emulator import Emulator
from rookery.sims.libretro.cores import find_core, found_cores, missing_core
from rookery.sims.libretro.machine import LibretroEmulator
from rookery.sims.systems import SYSTEMS, check_system, system_of
from rookery.spec.context import current_slot

BINDINGS = {
    "bindings:mgba": ("rookery.sims.mgba", "MgbaEmulator"),
    "cynes": ("rookery.sims.cynes", "CynesEmulator"),
}
"""Backends that are Python packages of their own."""


def open_emulator(
    rom: str | Path,
    *,
    frame_skip: int = 1,
    core: str | None = None,
    system: str | None = None,
    scratch: Path | None = None,
) -> Emulator:
    """Load a game into a machine of its own.

    Args:
        rom: the ROM's file. It is read once; nothing beside it is read or written, a ``.sav`` least of all.
        frame_skip: frames of a step.
        core: a core's name (``"mgba"``), a path to its file, ``"bindings:mgba"`` or ``"cynes"``; None: the best found.
        system: ``"gba"``, ``"nes"``, ...; None: what the ROM says.
        scratch: where the machine may keep files; None: the slot's own directory, or a temporary one.

    Raises:
        EmulatorError: no core, no such ROM, or the core refuses it.
    """
    if isinstance(frame_skip, bool) or not isinstance(frame_skip, int) or frame_skip < 1:
        raise EmulatorError(f"frame_skip={frame_skip!r}: must be a whole number of at least 1")
    path = Path(rom)
    data = _read(path)
    machine = check_system(system) if system else system_of(data, path.name)
    chosen = core or best_core(machine)
    place = scratch if scratch is not None else _slot_scratch()
    if chosen in BINDINGS:
        module, name = BINDINGS[chosen]
        backend = getattr(importlib.import_module(module), name)
        emulator: Emulator = backend(path, frame_skip=frame_skip, scratch=place)
        return emulator
    file = find_core(chosen).path
    return LibretroEmulator(data, file, system=machine, file_name=path.name, frame_skip=frame_skip, scratch=place)


def best_core(system: str) -> str:
    """The name of the first core in the machine's list that is installed.

    Raises:
        EmulatorError: none is; the message says how to install one.
    """
    found = {core.name for core in found_cores()}
    wanted = SYSTEMS[system].cores
    for name in wanted:
        if name in found or (name in BINDINGS and importlib.util.find_spec(name) is not None):
            return name
    raise EmulatorError(missing_core(wanted, sorted(found)))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise EmulatorError(f"cannot read the ROM {path}: {error.strerror}") from None


def _slot_scratch() -> Path | None:
    try:
        return current_slot().scratch
    except UsageError:
        return None
