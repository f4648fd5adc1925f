"""The cores that tests run on: each kind once, found where a user's would be found."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from missing import skip_missing
from ninelives.errors import EmulatorError
from ninelives.sims.emulators import mgba
from ninelives.sims.libretro.cores import found_cores

WANTED = {
    "mgba-new": ("mgba", "gba", False),
    "mgba-old": ("mgba", "gba", True),
    "fceumm": ("fceumm", "nes", True),
    "gambatte": ("gambatte", "gb", True),
}
"""Name, machine and whether it comes with stable-retro, whose mGBA is old: states without cartridge and clock."""

FULL = os.environ.get("NINELIVES_FULL") == "1"
ENV_CORES = list(WANTED) if FULL else ["mgba-new", "fceumm"]
"""Cores for tests of whole environments: what differs between cores is tested on their machines, on every core."""


@dataclass(frozen=True)
class TestedCore:
    """A core, and how to get a machine of it."""

    __test__ = False
    name: str
    path: Path
    system: str


def core_named(name: str) -> TestedCore:
    wanted, system, from_stable_retro = WANTED[name]
    for core in found_cores():
        if core.name == wanted and (core.source == "stable-retro") == from_stable_retro:
            return TestedCore(name, core.path, system)
    return skip_missing(f"{name} is not installed; run .ci/cores and pip install 'ninelives[cores]'")


def require_bindings() -> None:
    """Skip the test where the mgba bindings or their library are not installed."""
    try:
        mgba.library()
    except EmulatorError as error:
        skip_missing(error)
