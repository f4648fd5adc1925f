"""All slots' pictures as one, in character cells of two pixels each.

::

    observations or render()  ->  picture_of  ->  one image  ->  lines of half blocks, each one write
       (84, 84, 4) uint8           (84, 84, 3)     tiles          the letter's colour and its ground

Pure but for the terminal's size, which it is told. Works for any number of slots; never asks for fewer.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.uint8]

GAP = 1
"""Columns between two tiles; twice as many lines of pixels, because a cell is twice as high as wide."""

NOTHING = np.full((2, 2, 3), 40, np.uint8)
"""Of a slot that has no picture."""

UPPER_HALF = "\N{UPPER HALF BLOCK}"
OFF = "\x1b[0m"


def picture_of(observation: Any) -> Image | None:
    """The picture in an observation: gray or coloured, channels first or last, the newest of stacked frames.

    Of a Dict or Tuple observation, the first part that is a picture. None if there is none.
    """
    if isinstance(observation, dict):
        return next((found for part in observation.values() if (found := picture_of(part)) is not None), None)
    if isinstance(observation, tuple | list):
        return next((found for part in observation if (found := picture_of(part)) is not None), None)
    array = np.asarray(observation)
    if array.dtype != np.uint8 or array.ndim not in (2, 3) or min(array.shape) < 1:
        return None
    if array.ndim == 2:
        return _gray(array) if min(array.shape) >= 8 else None
    if array.shape[0] < min(8, *array.shape[1:]):
        array = np.moveaxis(array, 0, -1)
    channels = array.shape[2]
    if min(array.shape[:2]) < 8 or channels > 16:
        return None
    if channels == 3:
        return array
    return array[..., -3:] if channels % 3 == 0 else _gray(array[..., -1])


def row_of(rows: Any, number: int) -> Any:
    """One slot's part of a batch of observations, in the structure of the space."""
    if isinstance(rows, dict):
        return {key: row_of(part, number) for key, part in rows.items()}
    return tuple(row_of(part, number) for part in rows) if isinstance(rows, tuple) else rows[number]


def _gray(array: Image) -> Image:
    return np.repeat(array[..., None], 3, axis=2)


def layout(count: int, columns: int, lines: int, aspect: float) -> tuple[int, int]:
    """Tiles across and down so that they become as large as can be; ``aspect`` is a picture's width by its height."""
    best, chosen = -1.0, (1, count)
    for across in range(1, count + 1):
        down = -(-count // across)
        width = (columns - GAP * (across - 1)) / across
        height = (2 * lines - 2 * GAP * (down - 1)) / down
        size = min(width, height * aspect)
        if size > best:
            best, chosen = size, (across, down)
    return chosen


def mosaic(pictures: Sequence[Image | None], columns: int, lines: int) -> Image:
    """One image of ``2 * lines`` by ``columns`` pixels at most, an even number of pixel lines."""
    seen = [picture for picture in pictures if picture is not None]
    aspect = seen[0].shape[1] / seen[0].shape[0] if seen else 1.0
    across, down = layout(len(pictures), columns, lines, aspect)
    room = (columns - GAP * (across - 1)) // across, (2 * lines - 2 * GAP * (down - 1)) // down
    width = max(1, min(room[0], int(room[1] * aspect)))
    height = max(2, min(room[1], int(width / aspect)) // 2 * 2)
    image = np.zeros((down * (height + 2 * GAP) - 2 * GAP, across * (width + GAP) - GAP, 3), np.uint8)
    for number, picture in enumerate(pictures):
        top, left = number // across * (height + 2 * GAP), number % across * (width + GAP)
        image[top : top + height, left : left + width] = resized(NOTHING if picture is None else picture, height, width)
    return image[: 2 * lines, :columns]


def resized(picture: Image, height: int, width: int) -> Image:
    """By the nearest pixel: quick, and pixel games stay sharp."""
    rows = (np.arange(height) * picture.shape[0] + picture.shape[0] // 2) // height
    cols = (np.arange(width) * picture.shape[1] + picture.shape[1] // 2) // width
    lines: Image = picture[np.minimum(rows, picture.shape[0] - 1)]
    return lines[:, np.minimum(cols, picture.shape[1] - 1)]


def half_blocks(image: Image, true_color: bool) -> list[str]:
    """One string a line of cells; equal neighbours share one colour code."""
    cells = np.concatenate([image[0::2], image[1::2]], axis=2)
    if not true_color:
        cells = _of_256(cells)
    code = "\x1b[38;2;{};{};{};48;2;{};{};{}m" if true_color else "\x1b[38;5;{};48;5;{}m"
    return [
        "".join(code.format(*colors) + UPPER_HALF * sum(1 for _ in run) for colors, run in groupby(map(tuple, row)))
        + OFF
        for row in cells.tolist()
    ]


def _of_256(cells: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The nearest colours of a terminal's cube of 6 x 6 x 6."""
    steps = (cells.astype(np.uint16) * 5 + 127) // 255
    weights = np.array([36, 6, 1])
    return np.stack([16 + (steps[..., :3] * weights).sum(axis=2), 16 + (steps[..., 3:] * weights).sum(axis=2)], axis=2)


class Mosaic:
    """Something rich can draw: the pictures of all slots, as large as the terminal allows."""

    def __init__(self, pictures: Sequence[Image | None], lines_below: int = 14) -> None:
        self._pictures, self._lines_below = list(pictures), lines_below
        self._true_color = os.environ.get("COLORTERM", "") in ("truecolor", "24bit")

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich.segment import ControlType, Segment

        lines = max(2, console.size.height - self._lines_below)
        for line in half_blocks(mosaic(self._pictures, options.max_width, lines), self._true_color):
            # A control segment is written as it is; thousands of styled cells would cost more than the training.
            yield Segment(line, None, [(ControlType.CARRIAGE_RETURN,)])
            yield Segment.line()
