"""Downsizes gray images by area averaging: bit for bit OpenCV's ``INTER_AREA``, in a quarter of its time.

After the emulator itself, resizing is the most expensive part of a step. A policy must see the same pixels in training
and everywhere else, with and without this module. So before the first image of a size both implementations are run and
compared, and if a single pixel differs, as it may with another version of OpenCV, only OpenCV is used.
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
Axis = tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]
"""For each target pixel the first source pixel it covers; and one row of weights per source pixel from there on."""

Plan = tuple[npt.NDArray[np.int32], npt.NDArray[np.float32], npt.NDArray[np.int32], npt.NDArray[np.float32]]
"""The axes of rows and columns."""

MOST_PIXELS = 4096
"""Longest row or column that is resized natively."""

TRIALS = 3
"""Images of noise: in each, about one in a hundred pixels is a rounding tie or close to one."""

FOUR = 4
"""Number of weights with a vectorised implementation; fewer are padded with zeros."""

_LEAST_SHARE = 1e-3
"""Source pixels covered by less than this share are ignored."""


class Resizer:
    """Resizes images to one size; ``opencv`` does the same with OpenCV."""

    def __init__(self, size: tuple[int, int], opencv: Resize) -> None:
        self._size, self._opencv = size, opencv
        native = native_module("ninelives.sims.emulators._resize")
        self._resize: Callable[..., None] | None = None if native is None else native.resize_area
        self._plans: dict[tuple[int, ...], Plan | None] = {}

    def __call__(self, image: Image) -> Image:
        """The resized image, in a new array."""
        shape = image.shape
        if shape not in self._plans:
            self._plans[shape] = self._verified_plan(shape)
        plan = self._plans[shape]
        return self._opencv(image) if plan is None else self._natively(image, plan)

    def _natively(self, image: Image, plan: Plan) -> Image:
        assert self._resize is not None
        target = np.empty(self._size, np.uint8)
        self._resize(image, image.shape[1], target, *plan)
        return target

    def _verified_plan(self, shape: tuple[int, ...]) -> Plan | None:
        """The plan for images of a shape; None if OpenCV must be used."""
        if self._resize is None or len(shape) != 2 or max(shape) > MOST_PIXELS:
            return None
        if shape[0] <= self._size[0] or shape[1] <= self._size[1]:
            return None
        plan = (*axis(shape[0], self._size[0]), *axis(shape[1], self._size[1]))
        noise = np.random.default_rng(0)
        trials = (noise.integers(0, 256, shape).astype(np.uint8) for _ in range(TRIALS))
        equal = all(np.array_equal(self._natively(trial, plan), self._opencv(trial)) for trial in trials)
        return plan if equal else None


@cache
def axis(pixels: int, count: int) -> Axis:
    """Which of ``pixels`` source pixels each of ``count`` target pixels covers, and their weights."""
    scale = 1.0 / (count / pixels)
    covered = [_covered(index * scale, scale, pixels) for index in range(count)]
    taps = min(max(FOUR, *(len(weights) for _, weights in covered)), pixels)
    first = np.array([min(first, pixels - taps) for first, _ in covered], np.int32)
    table = np.zeros((taps, count), np.float32)
    for column, start, (begin, weights) in zip(table.T, first, covered, strict=True):
        column[begin - start : begin - start + len(weights)] = weights
    return first, table


def _covered(begin: float, scale: float, pixels: int) -> tuple[int, list[float]]:
    """The first source pixel between ``begin`` and ``begin + scale``, and the weights from that pixel on."""
    end, width = begin + scale, min(scale, pixels - begin)
    touched = range(math.floor(begin), min(math.ceil(end), pixels))
    parts = [(pixel, min(end, pixel + 1) - max(begin, pixel)) for pixel in touched]
    counting = [(pixel, part) for pixel, part in parts if part > _LEAST_SHARE]
    return counting[0][0], [part / width for _, part in counting]
