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

import numpy as np
import numpy.typing as npt

from ninelives.native import native_module

Image = npt.NDArray[np.uint8]
Resize = Callable[[Image], Image]
Side = tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]
"""Of each pixel of the result: the first pixel that it covers; and a row of weights for those, one for the next, ..."""

Plan = tuple[npt.NDArray[np.int32], npt.NDArray[np.float32], npt.NDArray[np.int32], npt.NDArray[np.float32]]
"""For rows and for columns."""

MOST_PIXELS = 4096
"""In a row or column of what is resized natively."""

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
        native = native_module("ninelives.sims.emulators._resize")
        self._resize: Callable[..., None] | None = None if native is None else native.resize_area
        self._plans: dict[tuple[int, ...], Plan | None] = {}

    def __call__(self, image: Image) -> Image:
        """The resized picture, an array of its own."""
        shape = image.shape
        if shape not in self._plans:
            self._plans[shape] = self._trusted(shape)
        plan = self._plans[shape]
        return self._slow(image) if plan is None else self._quick(image, plan)

    def _quick(self, image: Image, plan: Plan) -> Image:
        assert self._resize is not None
        target = np.empty(self._size, np.uint8)
        self._resize(image, image.shape[1], target, *plan)
        return target

    def _trusted(self, shape: tuple[int, ...]) -> Plan | None:
        """The plan for pictures of a shape; None where OpenCV's way must be gone."""
        if self._resize is None or len(shape) != 2 or max(shape) > MOST_PIXELS:
            return None
        if shape[0] <= self._size[0] or shape[1] <= self._size[1]:
            return None
        plan = (*side(shape[0], self._size[0]), *side(shape[1], self._size[1]))
        noise = np.random.default_rng(0)
        trials = (noise.integers(0, 256, shape).astype(np.uint8) for _ in range(TRIALS))
        return plan if all(np.array_equal(self._quick(trial, plan), self._slow(trial)) for trial in trials) else None


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
