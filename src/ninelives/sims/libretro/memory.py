"""The machine's memory by bus address: read-only arrays that keep alive what they look at.

A core declares its memory piece by piece, each with a rule for its mirrors. An address is resolved by these rules, and
an array may span pieces that lie side by side in the core as they do on the bus.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from ninelives.errors import ClosedError, EmulatorError
from ninelives.sims.libretro import api
from ninelives.sims.libretro.frontend import Descriptor
from ninelives.sims.libretro.game import Game

GBA_CARTRIDGE_SAVE = 0x0E000000
NAMES: dict[str, dict[int, str]] = {
    "gba": {
        0x00000000: "bios", 0x02000000: "ewram", 0x03000000: "iwram", 0x04000000: "io", 0x05000000: "palette",
        0x06000000: "vram", 0x07000000: "oam", 0x08000000: "rom", GBA_CARTRIDGE_SAVE: "cartridge",
    },
    "nes": {0x0000: "ram", 0x6000: "cartridge"},
    "gb": {0x0000: "rom", 0x8000: "vram", 0xA000: "cartridge", 0xC000: "wram", 0xFE00: "oam", 0xFF80: "hram"},
}  # fmt: skip
NAMES["gbc"] = NAMES["gb"]

RAM_PLACES = {
    "nes": (0x0000, 0x800), "gb": (0xC000, 0x2000), "gbc": (0xC000, 0x2000), "gba": (0x02000000, 0x40000),
    "genesis": (0xFF0000, 0x10000), "snes": (0x7E0000, 0x20000), "atari2600": (0x80, 0x80),
}  # fmt: skip
"""Where a machine's RAM begins and how much there is at most, for cores that declare nothing.

Not even the size is believed: mGBA 0.7 tells of a GBA's for a Game Boy, and what follows is somebody else's memory.
"""

NES_RAM, NES_RAM_AND_MIRRORS = 0x0800, 0x2000


class Window:
    """A piece of a game's memory as numpy can take it: the array's base, hence the game's life."""

    __slots__ = ("__array_interface__", "_game")

    def __init__(self, game: Game, interface: dict[str, Any]) -> None:
        self._game = game
        self.__array_interface__ = interface


def array_of(
    game: Game, address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: str, *, writeable: bool = False
) -> npt.NDArray[Any]:
    """An array over the core's own memory."""
    place = {"data": (address, not writeable), "shape": shape, "strides": strides, "typestr": dtype, "version": 3}
    return np.asarray(Window(game, place))


class BusMemory:
    """Memory of one game; ``hidden`` are first addresses of pieces that do not show the truth and are left out."""

    def __init__(self, game: Game, system: str, hidden: Iterable[int] = ()) -> None:
        self._game: Game | None = game
        self._system = system
        self._hidden = frozenset(hidden)

    def view(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        """A live read-only view of ``size`` bytes from ``address`` on."""
        game = self._open_game()
        found = locate(self._descriptors(game), _unmirrored(self._system, address), size)
        if found is None:
            mapped = ", ".join(f"{name} 0x{start:X}..0x{start + size - 1:X}" for name, start, size in self.regions())
            raise EmulatorError(f"no memory at 0x{address:X}..0x{address + size - 1:X}; mapped are {mapped or 'none'}")
        return array_of(game, found, (size,), (1,), "|u1")

    def regions(self) -> tuple[tuple[str, int, int], ...]:
        """Name, first address and size of every mapped region."""
        names = NAMES.get(self._system, {})
        merged: list[tuple[str, int, int, int]] = []
        for entry in sorted(self._descriptors(self._open_game()), key=lambda entry: entry.start):
            name = names.get(entry.start)
            if name is None and merged and _continues(merged[-1], entry):
                before, start, size, pointer = merged.pop()
                merged.append((before, start, size + entry.size, pointer))
            else:
                merged.append((name or f"0x{entry.start:X}", entry.start, entry.size, entry.pointer))
        return tuple((name, start, size) for name, start, size, _ in merged)

    def close(self) -> None:
        """Let go of the game; views that were handed out stay good."""
        self._game = None

    def _open_game(self) -> Game:
        if self._game is None:
            raise ClosedError("this emulator is closed: its memory can no longer be looked up")
        return self._game

    def _descriptors(self, game: Game) -> tuple[Descriptor, ...]:
        declared = game.frontend.descriptors or _assumed(game, self._system)
        return tuple(entry for entry in declared if entry.start not in self._hidden)


def locate(descriptors: tuple[Descriptor, ...], address: int, size: int) -> int | None:
    """Where ``size`` bytes from a bus address on lie side by side in our memory; None if they do not."""
    if size < 1 or address < 0:
        return None
    first, room = _resolve(descriptors, address)
    while first and room < size:
        after, more = _resolve(descriptors, address + room)
        if after != first + room:
            return None
        room += more
    return first or None


def _resolve(descriptors: tuple[Descriptor, ...], address: int) -> tuple[int, int]:
    """Where a bus address lies in our memory, and how many bytes follow in the same piece."""
    for entry in descriptors:
        end = entry.start + entry.size
        inside = entry.start <= address < end if not entry.select else not (address ^ entry.start) & entry.select
        if inside:
            offset = ((address - entry.start) & ~entry.disconnect) % entry.size
            return entry.pointer + offset, entry.size - offset
    return 0, 0


def _continues(before: tuple[str, int, int, int], entry: Descriptor) -> bool:
    _, start, size, pointer = before
    return start + size == entry.start and pointer + size == entry.pointer


def _assumed(game: Game, system: str) -> tuple[Descriptor, ...]:
    """The machine's RAM where it always is, for a core that declares nothing."""
    pointer, size = game.memory(api.MEMORY_SYSTEM_RAM)
    if not pointer:
        return ()
    start, most = RAM_PLACES.get(system, (0, size))
    return (Descriptor(start, min(size, most), pointer, 0, 0, constant=False),)


def _unmirrored(system: str, address: int) -> int:
    """The address itself, or what it repeats, where no core declares the machine's mirrors."""
    return address % NES_RAM if system == "nes" and 0 <= address < NES_RAM_AND_MIRRORS else address
