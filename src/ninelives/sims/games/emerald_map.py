"""Pokemon Emerald's map buffer: the player's surroundings, and whether the buffer is currently valid. Pure.

``gBackupMapLayout`` holds a width, a height and a pointer to cells in row order, with a border of seven cells on the
left and at the top (``include/fieldmap.h``). While the game loads a map, the cells are all undefined or belong to
another map than the position: the map is in transition then, not corrupt.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninelives.sims.emulators.memory_map import Field

BORDER = 7
ADDED = (2 * BORDER + 1, 2 * BORDER)
"""Cells that the border adds to a map's width and height."""
MOST_CELLS = 10_240
EWRAM = range(0x02000000, 0x02040000)
VIEW = (11, 15)
"""Rows and columns around the player: what the screen shows, plus one row so that the player is in the middle."""

_TILE, _COLLISION = 0x03FF, 0x0C00
_UNDEFINED = 0x03FF
_MIDDLE = (VIEW[0] // 2, VIEW[1] // 2)


@dataclass(frozen=True)
class Surroundings:
    """A map's size without its border, and the walls around the player: 1 where the player cannot walk."""

    width: int
    height: int
    walls: npt.NDArray[np.uint8]


def cells_of(layout: int) -> Field:
    """The field of a map's cells, for the address of its layout; zeros while the layout's pointer is invalid."""
    return Field(0, "u16", MOST_CELLS, pointer=layout + 8, null=0)


def look_around(layout: npt.NDArray[np.int32], cells: npt.NDArray[np.uint16], x: int, y: int) -> Surroundings | None:
    """The surroundings of a player at ``x, y``, without the border; None while the map is in transition."""
    width, height, pointer = (int(number) for number in layout)
    if not is_plausible(width, height, pointer):
        return None
    if not (0 <= x < width - ADDED[0] and 0 <= y < height - ADDED[1]):
        return None
    top, left = y + BORDER - _MIDDLE[0], x + BORDER - _MIDDLE[1]
    near = cells[: width * height].reshape(height, width)[top : top + VIEW[0], left : left + VIEW[1]]
    if near[_MIDDLE] & _TILE == _UNDEFINED:
        return None
    walls = ((near & _COLLISION != 0) | (near & _TILE == _UNDEFINED)).astype(np.uint8)
    return Surroundings(width - ADDED[0], height - ADDED[1], walls)


def is_plausible(width: int, height: int, pointer: int) -> bool:
    """Whether the numbers can be those of a map: a size that the game allows, cells inside its memory."""
    if width <= ADDED[0] or height <= ADDED[1] or width * height > MOST_CELLS:
        return False
    return EWRAM.start <= pointer and pointer + 2 * width * height <= EWRAM.stop
