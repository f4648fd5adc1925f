"""Playing one game by hand: runs frames at the game's speed, applies commands, saves and loads states.

Independent of the kind of screen: a terminal or a window shows the game and reports which buttons are held. A step is
one frame here, so that a state can be saved at any frame.
"""

from __future__ import annotations

import itertools
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from ninelives.clock import Clock
from ninelives.console.game_session import GameSession
from ninelives.console.keys import HELP
from ninelives.errors import ConfigError
from ninelives.sims.emulators.machine import pad_of
from ninelives.sims.emulators.movies import MovieRecorder
from ninelives.sims.emulators.state_files import write_file

FAST = 8
"""Speed factor of fast mode."""

MOST_BEHIND_NS = 500_000_000
"""Most time to catch up on after the machine was busy; the rest is dropped, so that the game does not race."""

ENDINGS = (signal.SIGTERM, signal.SIGHUP)
"""Signals that ask a program to end: a request to terminate, and a terminal that was closed."""

_S = 1_000_000_000


class GameScreen(Protocol):
    """Where the game is shown and played."""

    pictures_per_s: int

    def commands(self, wait_s: float) -> Iterator[str]:
        """Commands entered within this time."""
        ...

    def held(self) -> tuple[str, ...]:
        """Buttons that are held now."""
        ...

    def show(self, image: npt.NDArray[np.uint8], line: str) -> None:
        """Show a picture and a line of text."""
        ...


class GameControls:
    """Runs the game as the user commands: pause, single frames, fast mode, saved states."""

    def __init__(self, session: GameSession, out: Path, recorder: MovieRecorder | None = None) -> None:
        self._session, self._out, self._recorder = session, out, recorder
        self._saved: bytes | None = None
        self.paused = self.fast = self.over = False
        self.line = HELP[1]
        self.states: list[Path] = []
        self.frames = 0

    def execute(self, command: str, held: tuple[str, ...]) -> None:
        """Execute a command now."""
        if command == "advance":
            self._advance(held)
        else:
            getattr(self, f"_{command}")()

    def run(self, frames: int, held: tuple[str, ...]) -> None:
        """Run some frames with these buttons held; none while paused."""
        for _ in range(0 if self.paused else frames * (FAST if self.fast else 1)):
            self._frame(held)

    def _frame(self, held: tuple[str, ...]) -> None:
        pad = pad_of(*(button for button in held if button in self._session.buttons))
        hashed = self._session.step(pad)
        self.frames += 1
        if self._recorder is not None:
            self._recorder.note(pad, hashed)

    def picture(self) -> npt.NDArray[np.uint8]:
        """The picture to show."""
        return self._session.picture()

    def _save(self) -> None:
        moment = self._session.moment()
        try:
            path = write_numbered(self._out, moment)
        except ConfigError as error:
            self.line = str(error)
            return
        self._saved = moment
        self.states.append(path)
        self.line = f"saved {path}"

    def _load(self) -> None:
        if self._recorder is not None:
            self.line = "a movie is being recorded, so no state can be loaded; quit first"
        elif self._saved is None:
            self.line = "nothing saved yet: press 1 first"
        else:
            self._session.go_to(self._saved)
            self.line = "loaded the saved state"

    def _pause(self) -> None:
        self.paused = not self.paused
        self.line = "paused: . for one frame, p to continue" if self.paused else HELP[1]

    def _advance(self, held: tuple[str, ...]) -> None:
        self.paused = True
        self._frame(held)
        self.line = f"frame {self.frames}: . for the next, p to continue"

    def _fast(self) -> None:
        self.fast = not self.fast
        self.line = "fast: f for normal speed" if self.fast else HELP[1]

    def _help(self) -> None:
        self.line = HELP[0] if self.line != HELP[0] else HELP[1]

    def _quit(self) -> None:
        self.over = True

    def _suspend(self) -> None:
        self.line = "Ctrl-Z is off while you play: p pauses, q quits"


def play(controls: GameControls, screen: GameScreen, clock: Clock, frames_per_s: float) -> None:
    """Run the game at its own speed until the user quits."""
    ns_per_frame = _S / frames_per_s
    each = max(round(frames_per_s / screen.pictures_per_s), 1)
    due = clock.now_ns() + each * ns_per_frame
    screen.show(controls.picture(), controls.line)
    while not controls.over:
        now = clock.now_ns()
        for command in screen.commands(max(due - now, 0) / _S):  # even when late, so that keys work on a slow machine
            controls.execute(command, screen.held())
        if now < due or controls.over:
            continue
        due = max(due + each * ns_per_frame, now - MOST_BEHIND_NS)
        controls.run(each, screen.held())
        screen.show(controls.picture(), controls.line)


@contextmanager
def orderly_end() -> Iterator[None]:
    """Turn signals that ask for an end into exceptions, so that files are written and the terminal is restored.

    Only the first one counts: a second must not interrupt the clean-up.
    """

    def end(number: int, frame: Any) -> NoReturn:
        for one in before:
            signal.signal(one, signal.SIG_IGN)
        raise SystemExit(128 + number)

    handlers = {one: signal.getsignal(one) for one in ENDINGS}
    before = {one: handler for one, handler in handlers.items() if handler not in (signal.SIG_IGN, None)}
    for one in before:
        signal.signal(one, end)
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def write_numbered(path: Path, data: bytes) -> Path:
    """Write a file under this name or, if it exists, the first free numbered one; return its path.

    Raises:
        ConfigError: the file cannot be written.
    """
    free = next(name for name in _names(path) if not name.exists())
    write_file(free, data, overwrite=False)
    return free


def _names(path: Path) -> Iterator[Path]:
    yield path
    for number in itertools.count(2):
        yield path.with_name(f"{path.stem}-{number}{path.suffix}")
