"""Opens a game on the best emulator there is for it. Knows the backends by name and loads one only when it is used."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

from ninelives.errors import EmulatorError, UsageError
from ninelives.sims.emulators import ines
from ninelives.sims.emulators.emulator import Emulator
from ninelives.sims.emulators.systems import SYSTEMS, check_system, has_clock, system_of
from ninelives.sims.libretro.cores import find_core, found_cores, missing_core
from ninelives.sims.libretro.machine import LibretroEmulator
from ninelives.spec.context import current_slot

BINDINGS = {
    "bindings:mgba": ("ninelives.sims.emulators.mgba", "MgbaEmulator"),
    "cynes": ("ninelives.sims.emulators.cynes", "CynesEmulator"),
}
"""Backends that are Python packages of their own."""

PIN_CLOCKS = ("mgba",)
"""Cores in which a cartridge's clock can be made to count frames; in others it shows the host's time."""

MOST_ROM_BYTES = 1 << 30


def open_emulator(
    rom: str | Path,
    *,
    frame_skip: int = 1,
    core: str | Path | None = None,
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
    if machine == "nes":
        ines.check(data, path)
    chosen = str(core) if core else best_core(machine, has_clock(data, machine))
    place = scratch if scratch is not None else _slot_scratch()
    if chosen in BINDINGS:
        module, name = BINDINGS[chosen]
        backend = getattr(importlib.import_module(module), name)
        emulator: Emulator = backend(path, frame_skip=frame_skip, scratch=place)
        return emulator
    file = find_core(chosen).path
    return LibretroEmulator(data, file, system=machine, file_name=path.name, frame_skip=frame_skip, scratch=place)


def best_core(system: str, has_clock: bool = False) -> str:
    """The name of the first core in the machine's list that is installed; for a clock, one that may count frames.

    Raises:
        EmulatorError: none is; the message says how to install one.
    """
    found = {core.name for core in found_cores()}
    wanted = SYSTEMS[system].cores
    if has_clock:
        wanted = tuple(sorted(wanted, key=lambda name: name not in PIN_CLOCKS))
    for name in wanted:
        if name in found or (name in BINDINGS and importlib.util.find_spec(name) is not None):
            return name
    raise EmulatorError(missing_core(wanted, sorted(found)))


def _read(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > MOST_ROM_BYTES:
            raise EmulatorError(f"{path} has {size:,} bytes: no ROM has more than {MOST_ROM_BYTES:,}")
        return path.read_bytes()
    except OSError as error:
        raise EmulatorError(f"cannot read the ROM {path}: {error.strerror}") from None


def _slot_scratch() -> Path | None:
    try:
        return current_slot().scratch
    except UsageError:
        return None
