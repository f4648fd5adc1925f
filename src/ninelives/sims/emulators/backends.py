"""Opens a game on the best emulator installed for it. Knows the backends by name and imports one only when used."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

from ninelives.errors import EmulatorError, UsageError
from ninelives.sims.emulators import ines
from ninelives.sims.emulators.machine import Machine
from ninelives.sims.emulators.systems import SYSTEMS, check_system, has_clock, system_of
from ninelives.sims.libretro.cores import find_core, found_cores, missing_core
from ninelives.sims.libretro.emulator import LibretroEmulator
from ninelives.spec.context import current_slot

BINDINGS = {
    "bindings:mgba": ("ninelives.sims.emulators.mgba", "MgbaEmulator"),
    "cynes": ("ninelives.sims.emulators.cynes", "CynesEmulator"),
}
"""Backends that are separate Python packages: module and class by name."""

PIN_CLOCKS = ("mgba",)
"""Cores whose cartridge clock can be made to count frames; in other cores it shows the host's time."""

MOST_ROM_BYTES = 1 << 30


def open_emulator(
    rom: str | Path,
    *,
    frame_skip: int = 1,
    core: str | Path | None = None,
    system: str | None = None,
    scratch: Path | None = None,
) -> Machine:
    """Load a game into a new machine.

    Args:
        rom: the ROM file. It is read once; no other file beside it, such as a ``.sav``, is read or written.
        frame_skip: frames per step.
        core: a core's name (``"mgba"``), a path to its file, ``"bindings:mgba"`` or ``"cynes"``; None: the best one
            installed.
        system: ``"gba"``, ``"nes"``, ...; None: detected from the ROM.
        scratch: where the machine may keep files; None: the slot's own directory, or a temporary one.

    Raises:
        EmulatorError: no core is installed, the ROM cannot be read, or the core rejects it.
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
        emulator: Machine = backend(path, frame_skip=frame_skip, scratch=place)
        return emulator
    file = find_core(chosen).path
    return LibretroEmulator(data, file, system=machine, file_name=path.name, frame_skip=frame_skip, scratch=place)


def best_core(system: str, has_clock: bool = False) -> str:
    """The first installed core in the system's list; for a cartridge with a clock, one whose clock can count frames.

    Raises:
        EmulatorError: none is installed; the message says how to install one.
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
            raise EmulatorError(f"{path} has {size:,} bytes; a ROM has at most {MOST_ROM_BYTES:,}")
        return path.read_bytes()
    except OSError as error:
        raise EmulatorError(f"cannot read the ROM {path}: {error.strerror}") from None


def _slot_scratch() -> Path | None:
    try:
        return current_slot().scratch
    except UsageError:
        return None
