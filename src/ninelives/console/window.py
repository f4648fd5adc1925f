"""A game in a window. Needs pygame and a display. Buttons are held exactly as long as their keys."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from ninelives.console.keys import BUTTON_OF, COMMAND_OF
from ninelives.errors import ConfigError

SCALE = 3
INVISIBLE = ("offscreen", "dummy")
"""SDL drivers that show nothing; SDL silently picks one of them where there is no display."""

_POLL_S = 0.002


class WindowScreen:
    """Shows a game in a window. Use it as a context manager.

    Raises:
        ConfigError: pygame is not installed, or there is no display.
    """

    pictures_per_s = 60

    def __init__(self, title: str) -> None:
        try:
            import pygame
        except ImportError:
            raise ConfigError(
                "--window needs pygame: pip install pygame-ce; without --window the game runs in the terminal"
            ) from None
        self._pygame: Any = pygame
        self._title = title
        self._held: set[str] = set()
        self._surface: Any = None
        self._open()

    def _open(self) -> None:
        display = self._pygame.display
        try:
            display.init()
            if (driver := display.get_driver()) in INVISIBLE and not os.environ.get("SDL_VIDEODRIVER"):
                display.quit()
                raise self._pygame.error(f"there is no display, and SDL's {driver!r} driver shows nothing")
        except self._pygame.error as error:
            raise ConfigError(
                f"--window: cannot open a window: {error}; without --window the game runs in the terminal"
            ) from None

    def __enter__(self) -> WindowScreen:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pygame.display.quit()

    def commands(self, wait_s: float) -> Iterator[str]:
        """Commands entered within this time; pressed and released buttons are noted."""
        end = time.monotonic() + wait_s
        while True:
            for event in self._pygame.event.get():
                yield from self._noted(event)
            if time.monotonic() >= end:
                return
            time.sleep(_POLL_S)

    def _noted(self, event: Any) -> Iterator[str]:
        if event.type == self._pygame.QUIT:
            yield "quit"
        elif event.type in (self._pygame.KEYDOWN, self._pygame.KEYUP):
            name = {"return": "enter"}.get(self._pygame.key.name(event.key), self._pygame.key.name(event.key))
            down = event.type == self._pygame.KEYDOWN
            if name in BUTTON_OF:
                (self._held.add if down else self._held.discard)(BUTTON_OF[name])
            elif down and name in COMMAND_OF:
                yield COMMAND_OF[name]

    def held(self) -> tuple[str, ...]:
        """Buttons that are held now."""
        return tuple(self._held)

    def show(self, image: npt.NDArray[np.uint8], line: str) -> None:
        """Show the picture, and the line in the window's title."""
        height, width = image.shape[:2]
        size = (SCALE * width, SCALE * height)
        if self._surface is None or self._surface.get_size() != size:
            self._surface = self._pygame.display.set_mode(size)
        self._pygame.display.set_caption(f"{self._title}   {line}")
        frame = self._pygame.image.frombuffer(np.ascontiguousarray(image), (width, height), "RGB")
        self._surface.blit(self._pygame.transform.scale(frame, size), (0, 0))
        self._pygame.display.flip()
