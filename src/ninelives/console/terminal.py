"""A game in a terminal: keys in, half-block pictures out. Uses raw termios only, so that it works over ssh.

Terminals report when a key is pressed but not when it is released. A key therefore counts as held for a moment, and the
terminal's own key repeat extends it. The terminal's settings are restored however the game ends. Ctrl-Z is an ordinary
key meanwhile: a shell prompt would appear among the pictures.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
import tty
from collections.abc import Iterator
from types import TracebackType

import numpy as np
import numpy.typing as npt

from ninelives.clock import Clock
from ninelives.console.keys import BUTTON_OF, COMMAND_OF, key_names
from ninelives.errors import ConfigError
from ninelives.view.half_blocks import HalfBlockScreen, fit, has_true_color

HOLD_NS = 250_000_000
"""How long a pressed key counts as held: enough for a step of most games, short enough to stop in time."""

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[2J"
_LEAVE = "\x1b[0m\x1b[?25h\x1b[?1049l"
_LINES_BELOW = 2
_WITHOUT_CURSOR = ("dumb", "unknown")
_CONTROLS = 6
"""Index of the special characters in the result of ``tcgetattr``."""


class TerminalScreen:
    """Shows a game in the terminal. Use it as a context manager.

    Args:
        clock: measures how long a key is held.
        who: the command or flag that needs a terminal, for the error message.
        otherwise: what to do without a terminal, for the error message.
        keyboard: descriptor to read keys from.
        screen: descriptor to write pictures to.

    Raises:
        ConfigError: there is no terminal, or it cannot show pictures.
    """

    pictures_per_s = 20

    def __init__(self, clock: Clock, who: str, otherwise: str, keyboard: int = 0, screen: int = 1) -> None:
        if not (os.isatty(keyboard) and os.isatty(screen)):
            raise ConfigError(f"{who} needs a terminal for keys and pictures; {otherwise}")
        if (kind := os.environ.get("TERM")) in _WITHOUT_CURSOR:
            raise ConfigError(f"{who} needs a terminal that can move its cursor; TERM={kind} cannot; {otherwise}")
        self._clock, self._keyboard, self._screen = clock, keyboard, screen
        self._picture = HalfBlockScreen(true_color=has_true_color())
        self._until: dict[str, int] = {}
        self._pending = b""
        self._size = (0, 0)
        self._line = ""
        self._before = termios.tcgetattr(keyboard)

    def __enter__(self) -> TerminalScreen:
        tty.setcbreak(self._keyboard)
        self._disable_suspend()
        self._write(_ENTER)
        return self

    def _disable_suspend(self) -> None:
        settings = termios.tcgetattr(self._keyboard)
        disabled = os.fpathconf(self._keyboard, "PC_VDISABLE")
        settings[_CONTROLS][termios.VSUSP] = bytes([disabled])
        termios.tcsetattr(self._keyboard, termios.TCSANOW, settings)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError, termios.error):  # the terminal may have been closed
            try:
                self._write(_LEAVE)
            finally:
                termios.tcsetattr(self._keyboard, termios.TCSADRAIN, self._before)

    def commands(self, wait_s: float) -> Iterator[str]:
        """Commands entered within this time; pressed buttons are noted."""
        ready, _, _ = select.select([self._keyboard], [], [], max(wait_s, 0.0))
        if ready:
            arrived = os.read(self._keyboard, 4096)
            names, self._pending = key_names(self._pending + arrived)
            yield from self._noted(names) if arrived else ("quit",)

    def _noted(self, names: list[str]) -> Iterator[str]:
        for name in names:
            if name in BUTTON_OF:
                self._until[BUTTON_OF[name]] = self._clock.now_ns() + HOLD_NS
            elif name in COMMAND_OF:
                yield COMMAND_OF[name]

    def held(self) -> tuple[str, ...]:
        """Buttons that are held now."""
        now = self._clock.now_ns()
        return tuple(button for button, until in self._until.items() if until > now)

    def show(self, image: npt.NDArray[np.uint8], line: str) -> None:
        """Draw the picture and a line of text below it."""
        size = os.get_terminal_size(self._screen)
        if size != self._size:
            self._size, self._line = size, ""
            self._picture.forget()
            self._write("\x1b[0m\x1b[2J")
        room = max(size.lines - _LINES_BELOW, 1)
        text = self._picture.draw(fit(image, size.columns, room))
        if line != self._line:
            self._line = line
            text += f"\x1b[{size.lines};1H\x1b[0m{line[: size.columns - 1]}\x1b[K"
        self._write(text)

    def _write(self, text: str) -> None:
        sys.stdout.flush()
        data = text.encode()
        while data:
            data = data[os.write(self._screen, data) :]
