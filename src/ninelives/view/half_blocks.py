"""Pictures as text, two pixels per character cell: the upper one in the foreground colour, the lower one behind it.

Owns the half-block encoding for the training mosaic and for games played in a terminal. Pure: arrays in, text out.
"""

from __future__ import annotations

import os
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.uint8]

UPPER_HALF = "\N{UPPER HALF BLOCK}"
RESET = "\x1b[0m"


def has_true_color() -> bool:
    """Whether the terminal says that it shows 24-bit colours."""
    return os.environ.get("COLORTERM", "") in ("truecolor", "24bit")


def half_block_lines(image: Image, true_color: bool) -> list[str]:
    """The whole picture, one string per line of cells; equal neighbours share one colour code."""
    return [
        "".join(_color_code(cell) + UPPER_HALF * sum(1 for _ in run) for cell, run in groupby(map(tuple, row))) + RESET
        for row in _cells(image, true_color).tolist()
    ]


class HalfBlockScreen:
    """Remembers what the terminal shows and writes only the cells that changed, for use over a slow line."""

    def __init__(self, *, true_color: bool) -> None:
        self._true_color = true_color
        self._shown: npt.NDArray[Any] | None = None

    def forget(self) -> None:
        """Write everything again next time: the terminal was cleared or resized."""
        self._shown = None

    def draw(self, image: Image) -> str:
        """The text that shows a picture with an even number of pixel lines, from the upper left corner."""
        cells = _cells(image, self._true_color)
        if self._shown is None or self._shown.shape != cells.shape:
            changed = np.ones(cells.shape[:2], bool)
        else:
            changed = (cells != self._shown).any(axis=2)
        self._shown = cells
        return _changes(cells, changed)


def fit(image: Image, columns: int, rows: int) -> Image:
    """The picture as large as ``rows`` of ``columns`` cells allow: an even number of pixel lines, same proportions."""
    height, width = image.shape[:2]
    scale = min(columns / width, 2 * rows / height)
    if scale >= 1:
        whole = int(scale)
        return image.repeat(whole, axis=0).repeat(whole, axis=1)[: height * whole // 2 * 2]
    lines = max(int(height * scale) // 2 * 2, 2)
    return _averaged(_averaged(image, lines, axis=0), max(int(width * scale), 1), axis=1).astype(np.uint8)


def _averaged(image: npt.NDArray[Any], size: int, axis: int) -> npt.NDArray[Any]:
    """Shrink one axis: each new line is the mean of the old ones it covers."""
    edges = np.arange(size) * image.shape[axis] // size
    counts = np.diff(np.append(edges, image.shape[axis]))
    shape = [1] * image.ndim
    shape[axis] = size
    return np.asarray(np.add.reduceat(image.astype(np.uint32), edges, axis=axis) // counts.reshape(shape))


def _cells(image: Image, true_color: bool) -> npt.NDArray[Any]:
    """One row of numbers per cell: six (two RGB colours), or two indices into the terminal's 256 colours."""
    cells = np.concatenate([image[0::2], image[1::2]], axis=2)
    return cells if true_color else _of_256(cells)


def _of_256(cells: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The nearest colours of a terminal's 6 x 6 x 6 colour cube."""
    steps = (cells.astype(np.uint16) * 5 + 127) // 255
    weights = np.array([36, 6, 1])
    return np.stack([16 + (steps[..., :3] * weights).sum(axis=2), 16 + (steps[..., 3:] * weights).sum(axis=2)], axis=2)


def _changes(cells: npt.NDArray[Any], changed: npt.NDArray[np.bool_]) -> str:
    out: list[str] = []
    colors: list[int] = []
    place = (-1, -1)
    for row, column in np.argwhere(changed).tolist():
        if (row, column) != place:
            out.append(f"\x1b[{row + 1};{column + 1}H")
        cell = cells[row, column].tolist()
        if cell != colors:
            colors = cell
            out.append(_color_code(cell))
        out.append(UPPER_HALF)
        place = (row, column + 1)
    return "".join([*out, RESET]) if out else ""


def _color_code(cell: list[int] | tuple[int, ...]) -> str:
    """The escape sequence of a cell: six numbers are true colour, two are palette indices."""
    code = "\x1b[38;2;{};{};{};48;2;{};{};{}m" if len(cell) == 6 else "\x1b[38;5;{};48;5;{}m"
    return code.format(*cell)
