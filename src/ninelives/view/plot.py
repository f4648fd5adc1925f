"""A curve as a PNG file, drawn and encoded here: a run's picture should not need a plotting library.

Letters are three by five pixels, drawn twice as large. Pure: numbers in, bytes out.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.uint8]

WIDTH, HEIGHT = 880, 480
LEFT, RIGHT, TOP, BOTTOM = 90, 30, 50, 60
INK, GRID, FAINT, CURVE, MARK = (40, 44, 52), (226, 229, 233), (170, 205, 240), (20, 96, 180), (200, 60, 40)

_GLYPHS = (
    "0:75557 1:26227 2:71747 3:71717 4:55711 5:74717 6:74757 7:71222 8:75757 9:75717 a:25755 b:65656 c:34443 d:65556 "
    "e:74647 f:74644 g:34553 h:55755 i:72227 j:11152 k:55655 l:44447 m:57755 n:65555 o:25552 p:65644 q:25563 r:65655 "
    "s:34216 t:72222 u:55557 v:55552 w:55775 x:55255 y:55222 z:71247 .:00002 ,:00024 -:00700 /:11244 ::02020 %:51245 "
    "(:12221 ):42224 +:02720 =:07070 _:00007"
)
"""A character and its five rows of three pixels, each row as a number of three bits."""

FONT = {glyph[0]: [int(row) for row in glyph[2:]] for glyph in _GLYPHS.split()}


def png(image: Image) -> bytes:
    """An image of (height, width, 3) as a PNG file."""
    height, width = image.shape[:2]
    lines = np.concatenate([np.zeros((height, 1), np.uint8), image.reshape(height, width * 3)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def curve_image(
    episodes: Sequence[tuple[float, float]],
    mean: Sequence[tuple[float, float]],
    title: str,
    marks: Sequence[tuple[float, str]] = (),
) -> Image:
    """Episodes as dots, their mean as a line, marked moments as upright lines; (steps, return) each."""
    image = np.full((HEIGHT, WIDTH, 3), 255, np.uint8)
    frame = _Frame([x for x, _ in (*episodes, *mean, *marks)], [y for _, y in (*episodes, *mean)])
    for value in frame.ticks_y():
        row = frame.row(value)
        image[row, LEFT : WIDTH - RIGHT] = GRID
        label = _short(value)
        write(image, row - 5, LEFT - 10 - 8 * len(label), label)
    for value in frame.ticks_x():
        column, label = frame.column(value), _short(value)
        image[HEIGHT - BOTTOM : HEIGHT - BOTTOM + 5, column] = INK
        write(image, HEIGHT - BOTTOM + 12, column - 4 * len(label), label)
    for x, y in episodes:
        _dot(image, frame.row(y), frame.column(x), FAINT, 1)
    for at, words in marks:
        column = frame.column(at)
        image[TOP : HEIGHT - BOTTOM : 4, column] = MARK
        write(image, TOP - 14, min(column - 4 * len(words), WIDTH - RIGHT - 8 * len(words)), words, MARK)
    for (x0, y0), (x1, y1) in pairwise(mean):
        _line(image, (frame.row(y0), frame.column(x0)), (frame.row(y1), frame.column(x1)))
    image[TOP : HEIGHT - BOTTOM, LEFT] = INK
    image[HEIGHT - BOTTOM, LEFT : WIDTH - RIGHT] = INK
    write(image, 14, LEFT, title)
    write(image, HEIGHT - 22, WIDTH - RIGHT - 8 * len("steps"), "steps")
    write(image, TOP - 14, 12, "return")
    return image


class _Frame:
    """Where a value is in the picture; zero is always in it."""

    def __init__(self, xs: Sequence[float], ys: Sequence[float]) -> None:
        self._x = min([0.0, *xs]), max([1.0, *xs])
        self._y = min([0.0, *ys]), max([0.0, *ys])

    def row(self, y: float) -> int:
        low, high = self._y
        return round(HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (y - low) / ((high - low) or 1.0))

    def column(self, x: float) -> int:
        low, high = self._x
        return round(LEFT + (WIDTH - RIGHT - LEFT - 1) * (x - low) / ((high - low) or 1.0))

    def ticks_y(self) -> list[float]:
        return ticks(*self._y)

    def ticks_x(self) -> list[float]:
        return ticks(*self._x)


LEAST_SPAN = 1e-9
"""A curve that differs by less is flat."""


def ticks(low: float, high: float) -> list[float]:
    """About five round numbers within the range."""
    span = high - low if high - low > LEAST_SPAN else 1.0
    size = 10 ** math.floor(math.log10(span / 4))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if span / (size * factor) <= 6)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def write(image: Image, top: int, left: int, text: str, color: tuple[int, int, int] = INK) -> None:
    """Text in small letters; characters without a glyph are left blank."""
    for number, letter in enumerate(text.lower()):
        for row, bits in enumerate(FONT.get(letter, ())):
            for column in range(3):
                if bits >> (2 - column) & 1:
                    y, x = top + 2 * row, left + 8 * number + 2 * column
                    image[max(y, 0) : max(y + 2, 0), max(x, 0) : max(x + 2, 0)] = color


def _dot(image: Image, row: int, column: int, color: tuple[int, int, int], size: int) -> None:
    image[max(row - size, TOP) : row + size + 1, max(column - size, 0) : column + size + 1] = color


def _line(image: Image, start: tuple[int, int], end: tuple[int, int]) -> None:
    count = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
    for step in range(count + 1):
        row = start[0] + (end[0] - start[0]) * step // count
        column = start[1] + (end[1] - start[1]) * step // count
        image[row - 1 : row + 2, column - 1 : column + 1] = CURVE


def _short(value: float) -> str:
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"
