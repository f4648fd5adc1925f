"""Makes gray pictures smaller by the mean of what a pixel covers: OpenCV's result to the bit, in a quarter of its time.

Resizing is the dearest thing of a step after the emulator itself. What a network saw in training must be what it sees
everywhere, with and without this module. So nothing is taken on trust: before the first picture of a size, both ways
are gone and compared, and where they differ in one pixel, as with another version of OpenCV they may, there is only
OpenCV's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from rookery.native import native_module

Image = npt.NDArray[np.uint8]
Resize = Callable[[Image], Image]
Side = tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]
"""Of each pixel of the result: the first pixel that it covers; and a row of weights for those, one for the next, ..."""

TRIALS = 3
"""Pictures of noise: in each, some hundredth of the pixels lies just between two whole numbers."""

FOUR = 4
"""Weights for which there is a quick way; fewer are filled up with zeros."""

_NEXT_TO_NOTHING = 1e-3
"""Of a pixel: what is covered less than this does not count."""


class Resizer:
    """Resizes pictures to one size; ``slow`` is OpenCV's way for this size."""

    def __init__(self, size: tuple[int, int], slow: Resize) -> None:
        self._size, self._slow = size, slow
        self._native = native_module("rookery.sims._native")
        self._ways: dict[tuple[int, ...], Resize] = {}

    def __call__(self, image: Image) -> Image:
        """The resized picture, an array of its own."""
        way = self._ways.get(image.shape)
        if way is None:
            way = self._ways[image.shape] = self._way(image.shape)
        return way(image)

    def _way(self, shape: tuple[int, ...]) -> Resize:
        if self._native is None or len(shape) != 2 or shape[0] <= self._size[0] or shape[1] <= self._size[1]:
            return self._slow
        quick = _quick(self._native, shape, self._size)
        noise = np.random.default_rng(0)
        trials = (noise.integers(0, 256, shape).astype(np.uint8) for _ in range(TRIALS))
        is_equal = all(np.array_equal(quick(trial), self._slow(trial)) for trial in trials)
        return quick if is_equal else self._slow


def _quick(native: Any, shape: tuple[int, ...], size: tuple[int, int]) -> Resize:
    resize, width = native.resize_area, shape[1]
    plan = (*side(shape[0], size[0]), *side(width, size[1]))

    def quick(image: Image) -> Image:
        target = np.empty(size, np.uint8)
        resize(image, width, target, *plan)
        return target

    return quick


@cache
def side(pixels: int, count: int) -> Side:
    """Which of ``pixels`` in a row each of ``count`` covers, and how much each counts."""
    scale = 1.0 / (count / pixels)
    covered = [_covered(index * scale, scale, pixels) for index in range(count)]
    taps = min(max(FOUR, *(len(weights) for _, weights in covered)), pixels)
    first = np.array([min(first, pixels - taps) for first, _ in covered], np.int32)
    table = np.zeros((taps, count), np.float32)
    for column, start, (begin, weights) in zip(table.T, first, covered, strict=True):
        column[begin - start : begin - start + len(weights)] = weights
    return first, table


def _covered(begin: float, scale: float, pixels: int) -> tuple[int, list[float]]:
    """The first pixel that counts between ``begin`` and ``begin + scale``, and the share of that and those after it."""
    end, width = begin + scale, min(scale, pixels - begin)
    touched = range(math.floor(begin), min(math.ceil(end), pixels))
    parts = [(pixel, min(end, pixel + 1) - max(begin, pixel)) for pixel in touched]
    counting = [(pixel, part) for pixel, part in parts if part > _NEXT_TO_NOTHING]
    return counting[0][0], [part / width for _, part in counting]
