"""A game in a terminal: keys in, half-block pictures out. Raw termios only, so that it works over ssh.

Terminals tell when a key is pressed but not when it is let go. A key therefore counts as held for a moment, and the
terminal's own key repeat prolongs it. Whatever happens, the terminal is left as it was found.
"""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator
from types import TracebackType

import numpy as np
import numpy.typing as npt

from rookery.cli.halfblocks import Canvas, fit
from rookery.cli.keys import BUTTON_OF, COMMAND_OF, key_names
from rookery.clock import Clock
from rookery.errors import ConfigError

HOLD_NS = 250_000_000
"""How long a pressed key counts as held: a step of most games, and short enough to let go in time."""

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[2J"
_LEAVE = "\x1b[0m\x1b[?25h\x1b[?1049l"
_LINES_BELOW = 2


class Terminal:
    """The terminal as a face of a game; a context manager."""

    pictures_per_s = 20

    def __init__(self, clock: Clock, keyboard: int = 0, screen: int = 1) -> None:
        if not (os.isatty(keyboard) and os.isatty(screen)):
            raise ConfigError("rookery play needs a terminal for keys and pictures; or use --window")
        self._clock, self._keyboard, self._screen = clock, keyboard, screen
        self._canvas = Canvas(true_color=os.environ.get("COLORTERM", "") in ("truecolor", "24bit"))
        self._until: dict[str, int] = {}
        self._pending = b""
        self._size = (0, 0)
        self._line = ""
        self._before = termios.tcgetattr(keyboard)

    def __enter__(self) -> Terminal:
        tty.setcbreak(self._keyboard)
        self._write(_ENTER)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write(_LEAVE)
        termios.tcsetattr(self._keyboard, termios.TCSADRAIN, self._before)

    def commands(self, wait_s: float) -> Iterator[str]:
        """Commands that were given within this time; pressed buttons are noted."""
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
        """Draw the picture, and a line of text below it."""
        size = os.get_terminal_size(self._screen)
        if size != self._size:
            self._size, self._line = size, ""
            self._canvas.forget()
            self._write("\x1b[0m\x1b[2J")
        room = max(size.lines - _LINES_BELOW, 1)
        text = self._canvas.draw(fit(image, size.columns, room))
        if line != self._line:
            self._line = line
            text += f"\x1b[{size.lines};1H\x1b[0m{line[: size.columns - 1]}\x1b[K"
        self._write(text)

    def _write(self, text: str) -> None:
        sys.stdout.flush()
        data = text.encode()
        while data:
            data = data[os.write(self._screen, data) :]
