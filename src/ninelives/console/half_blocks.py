"""Pictures as text: two pixels in a character cell, the upper one the letter's colour, the lower one its ground. Pure.

Only cells that changed since the last picture are written, so that a game can be watched over a slow line.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.uint8]

UPPER_HALF = "\N{UPPER HALF BLOCK}"


def fit(image: Image, columns: int, rows: int) -> Image:
    """The picture as large as ``rows`` of ``columns`` cells allow: an even number of lines, its own proportions."""
    height, width = image.shape[:2]
    scale = min(columns / width, 2 * rows / height)
    if scale >= 1:
        whole = int(scale)
        return image.repeat(whole, axis=0).repeat(whole, axis=1)[: height * whole // 2 * 2]
    lines = max(int(height * scale) // 2 * 2, 2)
    return _averaged(_averaged(image, lines, axis=0), max(int(width * scale), 1), axis=1).astype(np.uint8)


def _averaged(image: npt.NDArray[Any], size: int, axis: int) -> npt.NDArray[Any]:
    """Each new line is the mean of the old ones it covers."""
    edges = np.arange(size) * image.shape[axis] // size
    counts = np.diff(np.append(edges, image.shape[axis]))
    shape = [1] * image.ndim
    shape[axis] = size
    return np.asarray(np.add.reduceat(image.astype(np.uint32), edges, axis=axis) // counts.reshape(shape))


class Canvas:
    """What the terminal shows; gives the text that turns it into the next picture."""

    def __init__(self, *, true_color: bool) -> None:
        self._true_color = true_color
        self._shown: npt.NDArray[Any] | None = None

    def forget(self) -> None:
        """The terminal was cleared or resized: everything is written again."""
        self._shown = None

    def draw(self, image: Image) -> str:
        """The text for a picture with an even number of lines, drawn from the upper left corner."""
        cells = np.concatenate([image[0::2], image[1::2]], axis=2)
        if not self._true_color:
            cells = _of_256(cells)
        if self._shown is None or self._shown.shape != cells.shape:
            changed = np.ones(cells.shape[:2], bool)
        else:
            changed = (cells != self._shown).any(axis=2)
        self._shown = cells
        return self._written(cells, changed)

    def _written(self, cells: npt.NDArray[Any], changed: npt.NDArray[np.bool_]) -> str:
        out: list[str] = []
        colors: list[int] = []
        place = (-1, -1)
        for row, column in np.argwhere(changed).tolist():
            if (row, column) != place:
                out.append(f"\x1b[{row + 1};{column + 1}H")
            cell = cells[row, column].tolist()
            if cell != colors:
                colors = cell
                out.append(self._colored(cell))
            out.append(UPPER_HALF)
            place = (row, column + 1)
        return "".join([*out, "\x1b[0m"]) if out else ""

    def _colored(self, cell: list[int]) -> str:
        if self._true_color:
            return "\x1b[38;2;{};{};{};48;2;{};{};{}m".format(*cell)
        return "\x1b[38;5;{};48;5;{}m".format(*cell)


def _of_256(cells: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The nearest colours of a terminal's cube of 6 x 6 x 6."""
    steps = (cells.astype(np.uint16) * 5 + 127) // 255
    weights = np.array([36, 6, 1])
    return np.stack([16 + (steps[..., :3] * weights).sum(axis=2), 16 + (steps[..., 3:] * weights).sum(axis=2)], axis=2)
