"""Finds out a core's name, version and abilities in a separate process, because a broken core may crash or hang.

``python -m ninelives.sims.libretro.probe FILE`` is that process; ``examine`` starts it and reads its output.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ninelives.errors import EmulatorError
from ninelives.sims.emulators.systems import SYSTEMS
from ninelives.sims.libretro import library
from ninelives.sims.libretro.blank import blank_rom
from ninelives.sims.libretro.cores import name_of
from ninelives.sims.libretro.emulator import Abilities, LibretroEmulator
from ninelives.sims.libretro.game import CoreInfo, info_of

TIMEOUT_S = 20.0
"""A core answers in a tenth of a second; a disk may have to be read first."""


@dataclass(frozen=True)
class CoreReport:
    """What is known about a core.

    Attributes:
        info: name, version, file types; None if it cannot be loaded.
        abilities: what it can do with a game; None if that is not known.
        problem: why something is not known; empty if nothing is missing.
    """

    info: CoreInfo | None
    abilities: Abilities | None
    problem: str = ""


def examine(path: Path, timeout_s: float = TIMEOUT_S) -> CoreReport:
    """Examine a core in a separate process; returns within ``timeout_s`` whatever the core does."""
    command = [sys.executable, "-m", "ninelives.sims.libretro.probe", str(path)]
    with tempfile.TemporaryDirectory(prefix="ninelives-probe-") as place:
        try:
            ended = subprocess.run(
                command, capture_output=True, stdin=subprocess.DEVNULL, timeout=timeout_s, check=False,
                env={**os.environ, "TMPDIR": place},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return CoreReport(None, None, f"does not answer within {timeout_s:g} s")
    if ended.returncode < 0:
        return CoreReport(None, None, f"crashes: {signal.Signals(-ended.returncode).name}")
    try:
        answer = json.loads(ended.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return CoreReport(None, None, f"ends with code {ended.returncode}: {_last_line(ended.stderr)}")
    info, abilities = answer["info"], answer["abilities"]
    return CoreReport(
        CoreInfo(**info | {"extensions": tuple(info["extensions"])}) if info else None,
        Abilities(**abilities) if abilities else None,
        answer["problem"],
    )


def look_at(path: Path) -> CoreReport:
    """Load a core in this process, then run a blank ROM on it if there is one for its system."""
    try:
        loaded = library.load(path, Path(tempfile.gettempdir()))
        info = info_of(loaded)
        library.unload(loaded)
    except EmulatorError as error:
        return CoreReport(None, None, str(error))
    played = (system for system, rules in SYSTEMS.items() if name_of(path) in rules.cores)
    system = next((system for system in played if blank_rom(system)), None)
    rom = blank_rom(system) if system else None
    if system is None or rom is None:
        return CoreReport(info, None)
    try:
        machine = LibretroEmulator(rom, path, system=system, file_name=f"blank.{system}")
    except EmulatorError as error:
        return CoreReport(info, None, str(error))
    machine.close()
    return CoreReport(info, machine.abilities)


def _last_line(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "no output"


if __name__ == "__main__":
    print(json.dumps(dataclasses.asdict(look_at(Path(sys.argv[1])))))
