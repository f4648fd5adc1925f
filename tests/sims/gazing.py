"""What can be seen of a machine: all its memory and its picture, as one value that tests compare."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

from ninelives.sims.emulators.machine import pad_of

PADS = [0, *map(pad_of, ("left", "right", "up", "down")), pad_of("up", "right"), pad_of("a", "down")]
SEEN = {"ewram", "iwram", "vram", "palette", "oam", "ram", "wram", "hram"}


def sight(emulator):
    """A digest of each region of memory, and of the picture."""
    seen = {
        name: _digest(emulator.memory.view(at, size)) for name, at, size in emulator.memory.regions() if name in SEEN
    }
    return seen | {"picture": _digest(emulator.picture().pixels)}


def playing(emulator, seed, steps=30):
    """Random play; what is seen after every step."""
    chance = random.Random(seed)
    for _ in range(steps):
        emulator.step(chance.choice(PADS))
        yield sight(emulator)


def play(emulator, seed, steps=30):
    """Random play at once."""
    return list(playing(emulator, seed, steps))


def loaded_copies():
    """Private copies of cores that are mapped into this process, by the part of each that it can write to."""
    return {line.split()[4] for line in maps_of_cores() if "rw-p" in line}


def codes_of_copies():
    """Files whose code such copies run."""
    return {line.split()[4] for line in maps_of_cores() if "r-xp" in line}


def maps_of_cores():
    """All that is mapped of such copies, a line each."""
    return [line for line in Path("/proc/self/maps").read_text().splitlines() if "ninelives-core-" in line]


def _digest(array):
    return hashlib.blake2b(array.tobytes(), digest_size=8).hexdigest()
