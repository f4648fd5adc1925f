"""Turns a machine's picture into an observation: crop, gray or colour, resize, frame stack.

Raw pixels are converted to gray in one pass. Conversion and resizing are done by OpenCV or give identical results
(``resize``), so a policy sees the same pixels in training and everywhere else. If OpenCV is needed and missing, that is
an error; there is no approximate fallback.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Literal

import gymnasium
import numpy as np
import numpy.typing as npt

from ninelives.errors import ConfigError, EmulatorError
from ninelives.sims.emulators.machine import Picture, PixelLayout
from ninelives.sims.emulators.resize import Resizer

Image = npt.NDArray[np.uint8]
Pass = Callable[[npt.NDArray[Any]], Image]

COLORS = ("gray", "rgb")
_INSTALL = "pip install 'ninelives[emulators]'"
_MOST = 4096


@dataclass(frozen=True)
class Screen:
    """How a picture is observed.

    Attributes:
        color: ``gray`` or ``rgb``.
        size: height and width to resize to, by area averaging; None: original size.
        crop: rows and columns to remove: top, bottom, left, right.
        stack: number of recent pictures stacked into one observation, the oldest first.
        max_of_two: per pixel the maximum of the last two frames of a step, for games that draw objects every other
            frame.
    """

    color: Literal["gray", "rgb"] = "gray"
    size: tuple[int, int] | None = (84, 84)
    crop: tuple[int, int, int, int] | None = None
    stack: int = 1
    max_of_two: bool = False

    def __post_init__(self) -> None:
        if self.color not in COLORS:
            raise ConfigError(f"screen: color={self.color!r} is not known; allowed: {', '.join(COLORS)}")
        if self.size is not None:
            _numbers("size", self.size, 2, least=1)
        if self.crop is not None:
            _numbers("crop", self.crop, 4, least=0)
        _numbers("stack", (self.stack,), 1, least=1)
        if type(self.max_of_two) is not bool:
            raise ConfigError(f"screen: max_of_two={self.max_of_two!r} must be True or False")
        for key in ("size", "crop"):  # files and command lines give lists
            object.__setattr__(self, key, getattr(self, key) and tuple(getattr(self, key)))


AnyScreen = Screen | Mapping[str, Any] | None
"""A screen, or its fields by name as given in a file or on a command line; None: the picture is not observed."""


def screen_of(screen: AnyScreen) -> Screen | None:
    """A ``Screen`` from its fields by name; missing fields have their defaults.

    Raises:
        ConfigError: an unknown field or an invalid value.
    """
    if screen is None or isinstance(screen, Screen):
        return screen
    if not isinstance(screen, Mapping):
        raise ConfigError(f"screen={screen!r} must be a Screen(...), a mapping like {{'stack': 4}}, or None")
    known = [field.name for field in fields(Screen)]
    for key in screen:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"allowed: {', '.join(known)}"
            raise ConfigError(f"screen: no key {key!r}; {hint}")
    return Screen(**screen)


class ScreenPipeline:
    """Turns the pictures of one machine into observations."""

    def __init__(self, screen: Screen, first: Picture) -> None:
        self._screen = screen
        self._layout = first.layout
        self._crop = _cropper(screen, first)
        self._convert = _converter(first.layout, screen.color)
        self._resize = _resizer(screen.size)
        self._channels = 1 if screen.color == "gray" else 3
        image = self.image(first)
        self._shape = (self._channels * screen.stack, *image.shape[:2])
        self.space = gymnasium.spaces.Box(0, 255, self._shape, np.uint8)
        self.stack: list[Image] = [image] * screen.stack

    def seen(self, picture: Picture) -> Image:
        """One picture, cropped and converted but not resized; a new array."""
        if picture.layout != self._layout:
            self._layout = picture.layout
            self._convert = _converter(picture.layout, self._screen.color)
        return self._convert(picture.pixels if self._crop is None else self._crop(picture.pixels))

    def image(self, picture: Picture, other: Image | None = None) -> Image:
        """One picture as it is observed, or its maximum with the picture ``seen`` just before."""
        seen = self.seen(picture)
        return self._resize(seen if other is None else np.maximum(seen, other))

    def begin(self, image: Image) -> None:
        """Start an episode: fill the stack with this image."""
        self.stack = [image] * self._screen.stack

    def push(self, image: Image) -> None:
        """Add the image of a step to the stack."""
        self.stack = [*self.stack[1:], image]

    def observation(self) -> Image:
        """The stacked images, channels first, as a new array."""
        whole = np.empty(self._shape, np.uint8)
        for place, image in enumerate(self.stack):
            if image.shape[:2] != self._shape[1:]:
                raise EmulatorError(
                    f"the game's picture changed its size from {self._shape[1]} x {self._shape[2]} to {image.shape[0]} "
                    f"x {image.shape[1]}: this game needs a screen with a fixed size, like Screen(size=(84, 84))"
                )
            whole[place * self._channels : (place + 1) * self._channels] = _planes(image)
        return whole


def _planes(image: Image) -> Image:
    return image[None] if image.ndim == 2 else image.transpose(2, 0, 1)


def rgb_of(picture: Picture) -> Image:
    """A picture as RGB, ``(height, width, 3)``; without OpenCV, and bit for bit equal to OpenCV's conversion."""
    pixels = picture.pixels
    if picture.layout == "rgb888":
        return pixels.copy()
    if picture.layout == "bgrx8888":
        return np.ascontiguousarray(pixels[..., 2::-1])
    if picture.layout == "rgb565":
        planes = (pixels >> 8 & 0xF8, pixels >> 3 & 0xFC, pixels << 3 & 0xF8)
    else:
        planes = (pixels >> 7 & 0xF8, pixels >> 2 & 0xF8, pixels << 3 & 0xF8)
    return np.stack([plane.astype(np.uint8) for plane in planes], -1)


# ---- the passes ---------------------------------------------------------------------------------------------------

_CODES = {
    ("rgb565", "gray"): "COLOR_BGR5652GRAY",
    ("rgb555", "gray"): "COLOR_BGR5552GRAY",
    ("bgrx8888", "gray"): "COLOR_BGRA2GRAY",
    ("rgb888", "gray"): "COLOR_RGB2GRAY",
    ("rgb565", "rgb"): "COLOR_BGR5652RGB",
    ("rgb555", "rgb"): "COLOR_BGR5552RGB",
    ("bgrx8888", "rgb"): "COLOR_BGRA2RGB",
}


def _converter(layout: PixelLayout, color: str) -> Pass:
    """A function from raw pixels to gray or RGB."""
    cv2 = _opencv()
    if color == "rgb" and (cv2 is None or layout == "rgb888"):
        return lambda pixels: rgb_of(Picture(pixels, layout))
    if cv2 is None:
        raise ConfigError(f"screen: color='gray' needs OpenCV: {_INSTALL}; or observe color='rgb' with size=None")
    convert, code = cv2.cvtColor, getattr(cv2, _CODES[layout, color])
    if layout in ("bgrx8888", "rgb888"):
        return lambda pixels: convert(pixels, code)
    return lambda pixels: convert(pixels.view(np.uint8).reshape(*pixels.shape, 2), code)


def _cropper(screen: Screen, first: Picture) -> Pass | None:
    if screen.crop is None:
        return None
    height, width = first.pixels.shape[:2]
    top, bottom, left, right = screen.crop
    if top + bottom >= height or left + right >= width:
        raise ConfigError(f"screen: crop={screen.crop} removes all of a picture of {height} x {width}")
    rows, columns = slice(top, height - bottom), slice(left, width - right)
    return lambda pixels: pixels[rows, columns]


def _resizer(size: tuple[int, int] | None) -> Pass:
    if size is None:
        return lambda image: image
    cv2 = _opencv()
    if cv2 is None:
        raise ConfigError(f"screen: size={size} needs OpenCV: {_INSTALL}; or observe the whole picture with size=None")
    height, width = size
    return Resizer(size, partial(cv2.resize, dsize=(width, height), interpolation=cv2.INTER_AREA))


def _opencv() -> Any:
    try:
        return importlib.import_module("cv2")
    except ImportError:
        return None


def _numbers(key: str, values: Sequence[Any], count: int, least: int) -> None:
    good = isinstance(values, tuple | list) and len(values) == count
    if not good or not all(type(value) is int and least <= value <= _MOST for value in values):
        shown = values[0] if key == "stack" else values
        words = "a whole number" if count == 1 else f"{count} whole numbers"
        raise ConfigError(f"screen: {key}={shown!r} must be {words} from {least} to {_MOST}")
