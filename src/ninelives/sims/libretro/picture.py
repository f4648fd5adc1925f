"""Pictures from the core's memory or from a state, without conversion."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ninelives.errors import EmulatorError
from ninelives.sims.emulators.machine import MachineState, Picture, PixelLayout
from ninelives.sims.libretro.frames import Video
from ninelives.sims.libretro.game import LoadedGame
from ninelives.sims.libretro.memory import array_of

NUMBERS: dict[PixelLayout, tuple[str, int]] = {
    "rgb555": ("<u2", 1), "rgb565": ("<u2", 1), "bgrx8888": ("|u1", 4), "rgb888": ("|u1", 3),
}  # fmt: skip
"""Type and count of the numbers in a pixel."""


def picture_of(game: LoadedGame) -> Picture:
    """The last picture, in the core's own memory; black before the first frame."""
    layout = game.frontend.layout
    if game.frontend.frames.video is None:
        dtype, numbers = NUMBERS[layout]
        return Picture(np.zeros(_shape(game.timing.height, game.timing.width, numbers), dtype), layout)
    return Picture(_canvas(game, game.frontend.frames.video, layout), layout)


def paint(game: LoadedGame, pixels: npt.NDArray[Any] | int) -> None:
    """Write pixels into the core's picture, which it may not redraw completely; does nothing if they do not fit."""
    if game.frontend.frames.video is None:
        return
    canvas = _canvas(game, game.frontend.frames.video, game.frontend.layout, writeable=True)
    if isinstance(pixels, int) or (pixels.shape == canvas.shape and pixels.dtype == canvas.dtype):
        canvas[...] = pixels


def _canvas(game: LoadedGame, video: Video, layout: PixelLayout, *, writeable: bool = False) -> npt.NDArray[Any]:
    address, width, height, pitch = video
    dtype, numbers = NUMBERS[layout]
    size = np.dtype(dtype).itemsize
    strides = (pitch, size) if numbers == 1 else (pitch, numbers * size, size)
    return array_of(game, address, _shape(height, width, numbers), strides, dtype, writeable=writeable)


def picture_in(state: MachineState) -> Picture:
    """The picture of a saved state.

    Raises:
        EmulatorError: shape, layout and number of bytes do not match.
    """
    dtype, numbers = NUMBERS.get(state.layout, ("", 0))
    fits = bool(dtype) and len(state.shape) in (2, 3) and _shape(state.shape[0], state.shape[1], numbers) == state.shape
    if not fits or int(np.prod(state.shape)) * np.dtype(dtype).itemsize != len(state.pixels):
        raise EmulatorError(
            f"the state's picture is invalid: {len(state.pixels)} bytes as {state.shape} {state.layout}"
        )
    return Picture(np.frombuffer(state.pixels, dtype).reshape(state.shape), state.layout)


def _shape(height: int, width: int, numbers: int) -> tuple[int, ...]:
    return (height, width) if numbers == 1 else (height, width, numbers)
