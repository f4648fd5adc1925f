"""``Machine``: the typed seam between an emulator and everything built on it. Plain data and protocols, no behaviour.

Three backends implement the protocol: ``libretro`` (any core), ``mgba`` (the Python bindings) and ``cynes``. A machine
runs whole steps of ``frame_skip`` frames, shows its last picture, lets its memory be read by bus address, and can be
saved and loaded exactly. Nothing here knows about games, rewards or processes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

BUTTONS = ("b", "y", "select", "start", "up", "down", "left", "right", "a", "x", "l", "r")
"""Button names in libretro's order. A pad is a bit mask: bit ``i`` is button ``i``."""

PixelLayout = Literal["rgb565", "rgb555", "bgrx8888", "rgb888"]
"""Pixel format in memory: one uint16 per pixel (red in the high bits), four bytes, or three bytes."""


def pad_of(*names: str) -> int:
    """The bit mask of a pad with these buttons held."""
    return sum(1 << BUTTONS.index(name) for name in names)


@dataclass(frozen=True)
class Identity:
    """What a saved state belongs to.

    Attributes:
        backend: ``libretro``, ``mgba`` or ``cynes``.
        core: the name the emulator reports, like ``mGBA``.
        version: the version the emulator reports.
        system: ``gba``, ``gb``, ``nes``, ...
        rom_sha256: SHA-256 of the ROM's bytes, in hexadecimal.
    """

    backend: str
    core: str
    version: str
    system: str
    rom_sha256: str


@dataclass(frozen=True)
class Picture:
    """The last frame drawn.

    Attributes:
        pixels: ``(height, width)`` uint16, or ``(height, width, 4 or 3)`` uint8. May be a view that the next step
            overwrites.
        layout: the pixel format.
    """

    pixels: npt.NDArray[Any]
    layout: PixelLayout


@dataclass(frozen=True)
class MachineState:
    """The complete state of a machine, including the picture it shows.

    Attributes:
        core: the emulator's own save state.
        cartridge: the cartridge's save memory if the emulator's state does not contain it, else empty.
        pixels: bytes of the last picture, which no emulator's state contains.
        shape: shape of the last picture.
        layout: pixel format of the last picture.
        phase: frames since the last drawn one, modulo ``frame_skip``; 0 between steps.
        pad: the buttons that were held.
    """

    core: bytes
    cartridge: bytes
    pixels: bytes
    shape: tuple[int, ...]
    layout: PixelLayout
    phase: int
    pad: int


class Memory(Protocol):
    """A machine's memory by bus address. The arrays it returns keep the underlying memory alive."""

    def view(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        """A live read-only view of ``size`` bytes; EmulatorError with the mapped regions if the range is not mapped."""
        ...

    def regions(self) -> tuple[tuple[str, int, int], ...]:
        """Name, first address and size of every mapped region."""
        ...


class Machine(Protocol):
    """One running emulator with one game loaded.

    Attributes:
        identity: what its states belong to.
        buttons: the buttons that this system's pad has.
        frame_skip: frames per step.
        frames_per_s: the system's frame rate.
        memory: its memory by bus address.
    """

    identity: Identity
    buttons: tuple[str, ...]
    frame_skip: int
    frames_per_s: float
    memory: Memory

    def step(self, pad: int) -> None:
        """Run ``frame_skip`` frames with ``pad`` held. Only the last one must be drawn; the result is the same."""
        ...

    def advance(self, frames: int, pad: int) -> None:
        """Run any number of frames with ``pad`` held; the last one is drawn."""
        ...

    def picture(self) -> Picture:
        """The last frame drawn, or the picture of the state that was loaded."""
        ...

    def save(self) -> MachineState:
        """The complete state. Saving does not change the machine."""
        ...

    def load(self, state: MachineState) -> None:
        """Restore a state exactly; EmulatorError if the emulator rejects it."""
        ...

    def close(self) -> None:
        """Unload the game. Idempotent."""
        ...
