"""The machine behind an emulated game: what every backend offers, and nothing about games, rewards or processes.

A backend is a class with these members: ``libretro`` (any core), ``mgba`` (the bindings) and ``cynes``. Whoever plays
sees one machine that runs whole steps of ``frame_skip`` frames, shows its last picture, lets its memory be read by bus
address, and can be saved and loaded exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

BUTTONS = ("b", "y", "select", "start", "up", "down", "left", "right", "a", "x", "l", "r")
"""Names of the buttons of a pad; bit ``i`` of a pad's number is button ``i``, in libretro's order."""

PixelLayout = Literal["rgb565", "rgb555", "bgrx8888", "rgb888"]
"""How pixels lie in memory: one uint16 a pixel (red in the high bits), four bytes, or three bytes."""


def pad_of(*names: str) -> int:
    """The number of a pad on which these buttons are held."""
    return sum(1 << BUTTONS.index(name) for name in names)


@dataclass(frozen=True)
class Identity:
    """What a saved state belongs to.

    Attributes:
        backend: ``libretro``, ``mgba`` or ``cynes``.
        core: name the emulator gives itself, like ``mGBA``.
        version: version the emulator gives itself.
        system: ``gba``, ``gb``, ``nes``, ...
        rom_sha256: of the ROM's bytes, in hexadecimal digits.
    """

    backend: str
    core: str
    version: str
    system: str
    rom_sha256: str


@dataclass(frozen=True)
class Picture:
    """The last frame that was drawn.

    Attributes:
        pixels: ``(height, width)`` uint16, or ``(height, width, 4 or 3)`` uint8. May be a view that the next step
            overwrites.
        layout: how to read them.
    """

    pixels: npt.NDArray[Any]
    layout: PixelLayout


@dataclass(frozen=True)
class MachineState:
    """Everything about a machine that decides what comes next, and what it shows now.

    Attributes:
        core: the emulator's own state.
        cartridge: the cartridge's save memory where the emulator's state lacks it, else empty.
        pixels: bytes of the last picture, which no emulator's state holds.
        shape: of the last picture.
        layout: of the last picture.
        phase: frames since the last drawn one, modulo ``frame_skip``; 0 between steps.
        pad: what was held.
    """

    core: bytes
    cartridge: bytes
    pixels: bytes
    shape: tuple[int, ...]
    layout: PixelLayout
    phase: int
    pad: int


class Memory(Protocol):
    """Memory of a machine by bus address. Arrays it hands out keep what they look at alive."""

    def view(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        """A live read-only view of ``size`` bytes; EmulatorError naming the mapped regions if they are not mapped."""
        ...

    def regions(self) -> tuple[tuple[str, int, int], ...]:
        """Name, first address and size of every mapped region."""
        ...


class Emulator(Protocol):
    """One running machine with one game in it."""

    identity: Identity
    buttons: tuple[str, ...]
    frame_skip: int
    frames_per_s: float
    memory: Memory

    def step(self, pad: int) -> None:
        """Run ``frame_skip`` frames with ``pad`` held. Only the last need be drawn; the result is as if all were."""
        ...

    def advance(self, frames: int, pad: int) -> None:
        """Run any number of frames with ``pad`` held; the last is drawn, and steps go on from there."""
        ...

    def picture(self) -> Picture:
        """The last frame drawn, or loaded with a state."""
        ...

    def save(self) -> MachineState:
        """Everything, and nothing is changed by asking."""
        ...

    def load(self, state: MachineState) -> None:
        """Be exactly there; EmulatorError if the emulator refuses."""
        ...

    def close(self) -> None:
        """Unload the game. Idempotent."""
        ...
