"""A game in a terminal: keys in, half-block pictures out. Raw termios only, so that it works over ssh.

Terminals tell when a key is pressed but not when it is let go. A key therefore counts as held for a moment, and the
terminal's own key repeat prolongs it. Whatever happens, the terminal is left as it was found; Ctrl-Z is a mere key
meanwhile, for a shell would show its prompt among the pictures.
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
from ninelives.console.half_blocks import Canvas, fit
from ninelives.console.keys import BUTTON_OF, COMMAND_OF, key_names
from ninelives.errors import ConfigError

HOLD_NS = 250_000_000
"""How long a pressed key counts as held: a step of most games, and short enough to let go in time."""

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[2J"
_LEAVE = "\x1b[0m\x1b[?25h\x1b[?1049l"
_LINES_BELOW = 2
_WITHOUT_CURSOR = ("dumb", "unknown")
_CONTROLS = 6
"""Where the list of special characters is in what ``tcgetattr`` gives."""


class Terminal:
    """The terminal as a face of a game; a context manager.

    Args:
        clock: tells how long a key is held.
        who: the command or flag that needs a terminal, for the refusal where there is none.
        otherwise: what to do without one.
        keyboard: descriptor that keys are read from.
        screen: descriptor that pictures are written to.

    Raises:
        ConfigError: there is no terminal, or none that can show a picture.
    """

    pictures_per_s = 20

    def __init__(self, clock: Clock, who: str, otherwise: str, keyboard: int = 0, screen: int = 1) -> None:
        if not (os.isatty(keyboard) and os.isatty(screen)):
            raise ConfigError(f"{who} needs a terminal for keys and pictures; {otherwise}")
        if (kind := os.environ.get("TERM")) in _WITHOUT_CURSOR:
            raise ConfigError(f"{who} needs a terminal that can move its cursor, and TERM={kind} cannot; {otherwise}")
        self._clock, self._keyboard, self._screen = clock, keyboard, screen
        self._canvas = Canvas(true_color=os.environ.get("COLORTERM", "") in ("truecolor", "24bit"))
        self._until: dict[str, int] = {}
        self._pending = b""
        self._size = (0, 0)
        self._line = ""
        self._before = termios.tcgetattr(keyboard)

    def __enter__(self) -> Terminal:
        tty.setcbreak(self._keyboard)
        self._switch_suspend_off()
        self._write(_ENTER)
        return self

    def _switch_suspend_off(self) -> None:
        settings = termios.tcgetattr(self._keyboard)
        nothing = os.fpathconf(self._keyboard, "PC_VDISABLE")
        settings[_CONTROLS][termios.VSUSP] = bytes([nothing])
        termios.tcsetattr(self._keyboard, termios.TCSANOW, settings)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError, termios.error):  # it may be gone, closed by who sat at it
            try:
                self._write(_LEAVE)
            finally:
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
