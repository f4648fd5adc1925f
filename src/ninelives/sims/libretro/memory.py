"""A libretro machine's memory by bus address: read-only arrays that keep the underlying memory alive.

A core declares its memory in pieces, each with a rule for its mirrors. An address is resolved by these rules, and an
array may span pieces that are adjacent both in the core's memory and on the bus.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from ninelives.errors import ClosedError, EmulatorError
from ninelives.sims.libretro import api
from ninelives.sims.libretro.frontend import Descriptor
from ninelives.sims.libretro.game import LoadedGame

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
"""First address and maximum size of a system's RAM, for cores that declare no memory.

The size that the core reports is not trusted: mGBA 0.7 reports a GBA's for a Game Boy, and the rest is other memory.
"""

NES_RAM, NES_RAM_AND_MIRRORS = 0x0800, 0x2000


class MemoryWindow:
    """A piece of a game's memory for numpy. It becomes the array's base and so keeps the game alive."""

    __slots__ = ("__array_interface__", "_game")

    def __init__(self, game: LoadedGame, interface: dict[str, Any]) -> None:
        self._game = game
        self.__array_interface__ = interface


def array_of(
    game: LoadedGame,
    address: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: str,
    *,
    writeable: bool = False,
) -> npt.NDArray[Any]:
    """An array over the core's own memory."""
    place = {"data": (address, not writeable), "shape": shape, "strides": strides, "typestr": dtype, "version": 3}
    return np.asarray(MemoryWindow(game, place))


class BusMemory:
    """Memory of one game; ``hidden`` are first addresses of pieces with stale contents, which are left out."""

    def __init__(self, game: LoadedGame, system: str, hidden: Iterable[int] = ()) -> None:
        self._game: LoadedGame | None = game
        self._system = system
        self._hidden = frozenset(hidden)

    def view(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        """A live read-only view of ``size`` bytes from ``address`` on."""
        game = self._open_game()
        found = locate(self._descriptors(game), _unmirrored(self._system, address), size)
        if found is None:
            mapped = ", ".join(f"{name} 0x{start:X}..0x{start + size - 1:X}" for name, start, size in self.regions())
            raise EmulatorError(f"no memory at 0x{address:X}..0x{address + size - 1:X}; mapped: {mapped or 'nothing'}")
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
        """Release the game; views that were returned before stay valid."""
        self._game = None

    def _open_game(self) -> LoadedGame:
        if self._game is None:
            raise ClosedError("this emulator is closed: its memory can no longer be looked up")
        return self._game

    def _descriptors(self, game: LoadedGame) -> tuple[Descriptor, ...]:
        declared = game.frontend.descriptors or _assumed(game, self._system)
        return tuple(entry for entry in declared if entry.start not in self._hidden)


def locate(descriptors: tuple[Descriptor, ...], address: int, size: int) -> int | None:
    """Our address of ``size`` contiguous bytes at a bus address; None if they are not mapped or not contiguous."""
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
    """Our address of a bus address, and the number of bytes that follow in the same piece."""
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


def _assumed(game: LoadedGame, system: str) -> tuple[Descriptor, ...]:
    """The system's RAM at its fixed place, for a core that declares no memory."""
    pointer, size = game.memory(api.MEMORY_SYSTEM_RAM)
    if not pointer:
        return ()
    start, most = RAM_PLACES.get(system, (0, size))
    return (Descriptor(start, min(size, most), pointer, 0, 0, constant=False),)


def _unmirrored(system: str, address: int) -> int:
    """The address itself, or the one it mirrors, on systems whose mirrors no core declares."""
    return address % NES_RAM if system == "nes" and 0 <= address < NES_RAM_AND_MIRRORS else address
