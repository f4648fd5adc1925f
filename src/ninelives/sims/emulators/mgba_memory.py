"""Memory of the ``mgba`` bindings backend: read-only arrays that keep the underlying memory alive. Runs nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ninelives.errors import ClosedError, EmulatorError

GB_NAMES = {"cart0": "rom"}
NAMES = {"cart0": "rom", "wram": "ewram"}
"""The library's block names that differ from those of ``ninelives.sims.libretro``."""

MOVING = ("sram", "cart1", "cart2")
"""Blocks that are not mapped: memory of the cartridge, which moves, and mirrors."""


class MgbaMemory:
    """Memory by bus address. Only blocks that never move are mapped: no banks, no cartridge memory."""

    def __init__(self, ffi: Any, core: Any, system: str) -> None:
        self._blocks = [
            (name, start, np.asarray(_Window(core, address, size)))
            for name, start, address, size in _fixed_blocks(ffi, core, NAMES if system == "gba" else GB_NAMES)
        ]

    def view(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        """A live read-only view."""
        if not self._blocks:
            raise ClosedError("this emulator is closed; its memory can no longer be read")
        for _, start, block in self._blocks:
            if size > 0 and start <= address and address + size <= start + len(block):
                return block[address - start : address - start + size]
        known = ", ".join(f"{name} {start:#x}..{start + size - 1:#x}" for name, start, size in self.regions())
        raise EmulatorError(f"{size} bytes at {address:#x} are not mapped; mapped: {known}")

    def regions(self) -> tuple[tuple[str, int, int], ...]:
        """Name, first address and size of every mapped block."""
        if not self._blocks:
            raise ClosedError("this emulator is closed; its memory can no longer be read")
        return tuple((name, start, len(block)) for name, start, block in self._blocks)

    def close(self) -> None:
        """Return no further views."""
        self._blocks = []


class _Window:
    """A piece of native memory for numpy. Every array made of it keeps the core that owns the memory alive."""

    def __init__(self, core: Any, address: int, size: int) -> None:
        self.core = core
        self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": (size,), "data": (address, True)}


def _fixed_blocks(ffi: Any, core: Any, names: dict[str, str]) -> list[tuple[str, int, int, int]]:
    """Name, bus address, address in this process and size of every block that never moves."""
    table, size, out = ffi.new("struct mCoreMemoryBlock **"), ffi.new("size_t *"), []
    blocks = [table[0][number] for number in range(core.listMemoryBlocks(core, table))]
    starts = sorted({int(block.start) for block in blocks})
    for block in blocks:
        name, start = ffi.string(block.internalName).decode(), int(block.start)
        place = core.getMemoryBlock(core, block.id, size)
        if place == ffi.NULL or name in MOVING:
            continue
        end = min([int(block.end), *(other for other in starts if other > start)])
        if size[0] > end - start and block.segmentStart:  # banked memory: only the first bank stays in place
            end = int(block.segmentStart)
        out.append((names.get(name, name), start, int(ffi.cast("uintptr_t", place)), min(end - start, int(size[0]))))
    return out
