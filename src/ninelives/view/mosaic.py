"""The pictures of all slots as one image that fits the terminal.

::

    observations or render()  ->  picture_of  ->  mosaic  ->  view.half_blocks  ->  lines of text
       (84, 84, 4) uint8          (84, 84, 3)     tiles        two pixels per cell

Pure, apart from the terminal size that rich passes in. Shows every slot, whatever their number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ninelives.view.half_blocks import Image, half_block_lines, has_true_color

GAP = 1
"""Columns between two tiles, and twice as many pixel lines: a cell is twice as high as it is wide."""

NOTHING = np.full((2, 2, 3), 40, np.uint8)
"""The tile of a slot that has no picture."""


def picture_of(observation: Any) -> Image | None:
    """The picture in an observation: grayscale or colour, channels first or last, the newest of stacked frames.

    In a Dict or Tuple observation, the first part that is a picture. None if there is none.
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
    """Tiles across and down that make them as large as possible; ``aspect`` is a picture's width over its height."""
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
    """One image of at most ``2 * lines`` by ``columns`` pixels, with an even number of pixel lines."""
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
    """Nearest-neighbour resizing: fast, and pixel art stays sharp."""
    rows = (np.arange(height) * picture.shape[0] + picture.shape[0] // 2) // height
    cols = (np.arange(width) * picture.shape[1] + picture.shape[1] // 2) // width
    lines: Image = picture[np.minimum(rows, picture.shape[0] - 1)]
    return lines[:, np.minimum(cols, picture.shape[1] - 1)]


class Mosaic:
    """A rich renderable: the pictures of all slots, as large as the terminal allows."""

    def __init__(self, pictures: Sequence[Image | None], lines_below: int = 14) -> None:
        self._pictures, self._lines_below = list(pictures), lines_below
        self._true_color = has_true_color()

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich.segment import ControlType, Segment

        lines = max(2, console.size.height - self._lines_below)
        for line in half_block_lines(mosaic(self._pictures, options.max_width, lines), self._true_color):
            # A control segment is written unchanged; thousands of styled cells would cost more than the training.
            yield Segment(line, None, [(ControlType.CARRIAGE_RETURN,)])
            yield Segment.line()
