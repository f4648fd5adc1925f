"""Memory of a machine over the ``mgba`` bindings: read-only arrays that keep alive what they look at. Runs nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ninelives.errors import ClosedError, EmulatorError

GB_NAMES = {"cart0": "rom"}
NAMES = {"cart0": "rom", "wram": "ewram"}
"""Where the library's names of blocks are not those of ``ninelives.sims.libretro``."""

MOVING = ("sram", "cart1", "cart2")
"""Blocks that are not mapped: memory of the cartridge, which moves, and mirrors."""


class MgbaMemory:
    """Memory by bus address. Only blocks whose place never changes are mapped: no banks, no cartridge memory."""

    def __init__(self, ffi: Any, core: Any, system: str) -> None:
        self._blocks = [
            (name, start, np.asarray(_Window(core, address, size)))
            for name, start, address, size in _fixed_blocks(ffi, core, NAMES if system == "gba" else GB_NAMES)
        ]

    def view(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        """A live read-only view."""
        if not self._blocks:
            raise ClosedError("this emulator was closed; its memory can no longer be looked up")
        for _, start, block in self._blocks:
            if size > 0 and start <= address and address + size <= start + len(block):
                return block[address - start : address - start + size]
        known = ", ".join(f"{name} {start:#x}..{start + size - 1:#x}" for name, start, size in self.regions())
        raise EmulatorError(f"{size} bytes at {address:#x} are not mapped; mapped: {known}")

    def regions(self) -> tuple[tuple[str, int, int], ...]:
        """Name, first address and size of every mapped block."""
        if not self._blocks:
            raise ClosedError("this emulator was closed; its memory can no longer be looked up")
        return tuple((name, start, len(block)) for name, start, block in self._blocks)

    def close(self) -> None:
        """Hand out nothing more."""
        self._blocks = []


class _Window:
    """A piece of native memory as numpy asks for it. Every array made of it holds the core that owns the memory."""

    def __init__(self, core: Any, address: int, size: int) -> None:
        self.core = core
        self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": (size,), "data": (address, True)}


def _fixed_blocks(ffi: Any, core: Any, names: dict[str, str]) -> list[tuple[str, int, int, int]]:
    """Name, bus address, address in this process and size of every block that always lies in the same place."""
    table, size, out = ffi.new("struct mCoreMemoryBlock **"), ffi.new("size_t *"), []
    blocks = [table[0][number] for number in range(core.listMemoryBlocks(core, table))]
    starts = sorted({int(block.start) for block in blocks})
    for block in blocks:
        name, start = ffi.string(block.internalName).decode(), int(block.start)
        place = core.getMemoryBlock(core, block.id, size)
        if place == ffi.NULL or name in MOVING:
            continue
        end = min([int(block.end), *(other for other in starts if other > start)])
        if size[0] > end - start and block.segmentStart:  # more banks than there is room for: only the first stays
            end = int(block.segmentStart)
        out.append((names.get(name, name), start, int(ffi.cast("uintptr_t", place)), min(end - start, int(size[0]))))
    return out
