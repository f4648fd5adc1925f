"""One person playing one game: keys become pads, time becomes frames, states are saved and loaded. Knows no screen.

A face shows the game and tells which buttons are held: a terminal or a window. A step is one frame here, so that a
state can be saved at any of them.
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
from ninelives.console.game_session import GameSlot
from ninelives.console.keys import HELP
from ninelives.errors import ConfigError
from ninelives.sims.emulators.machine import pad_of
from ninelives.sims.emulators.movies import MovieRecorder
from ninelives.sims.emulators.state_files import write_file

FAST = 8
"""How many times faster is fast."""

MOST_BEHIND_NS = 500_000_000
"""Time that is made up for when the machine was busy; more is forgotten, so that the game does not race."""

ENDINGS = (signal.SIGTERM, signal.SIGHUP)
"""What asks a program to end: whoever stops it, and a terminal that is closed."""

_S = 1_000_000_000


class Face(Protocol):
    """Where the game is seen and played."""

    pictures_per_s: int

    def commands(self, wait_s: float) -> Iterator[str]:
        """Commands given within this time."""
        ...

    def held(self) -> tuple[str, ...]:
        """Buttons that are held now."""
        ...

    def show(self, image: npt.NDArray[np.uint8], line: str) -> None:
        """Show a picture and a line of text."""
        ...


class Player:
    """The game, and what its player asked for."""

    def __init__(self, slot: GameSlot, out: Path, recorder: MovieRecorder | None = None) -> None:
        self._slot, self._out, self._recorder = slot, out, recorder
        self._saved: bytes | None = None
        self.paused = self.fast = self.over = False
        self.line = HELP[1]
        self.states: list[Path] = []
        self.frames = 0

    def obey(self, command: str, held: tuple[str, ...]) -> None:
        """Do what a key asks for, at once."""
        if command == "advance":
            self._advance(held)
        else:
            getattr(self, f"_{command}")()

    def run(self, frames: int, held: tuple[str, ...]) -> None:
        """Some frames with these buttons held; none while paused."""
        for _ in range(0 if self.paused else frames * (FAST if self.fast else 1)):
            self._frame(held)

    def _frame(self, held: tuple[str, ...]) -> None:
        pad = pad_of(*(button for button in held if button in self._slot.buttons))
        hashed = self._slot.step(pad)
        self.frames += 1
        if self._recorder is not None:
            self._recorder.note(pad, hashed)

    def picture(self) -> npt.NDArray[np.uint8]:
        """What is to be shown."""
        return self._slot.picture()

    def _save(self) -> None:
        moment = self._slot.moment()
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
            self.line = "a movie is being recorded and cannot go back; quit first"
        elif self._saved is None:
            self.line = "nothing saved yet: press 1 first"
        else:
            self._slot.go_to(self._saved)
            self.line = "back at the saved moment"

    def _pause(self) -> None:
        self.paused = not self.paused
        self.line = "paused: . for one frame, p to go on" if self.paused else HELP[1]

    def _advance(self, held: tuple[str, ...]) -> None:
        self.paused = True
        self._frame(held)
        self.line = f"frame {self.frames}: . for the next, p to go on"

    def _fast(self) -> None:
        self.fast = not self.fast
        self.line = "fast: f to slow down" if self.fast else HELP[1]

    def _help(self) -> None:
        self.line = HELP[0] if self.line != HELP[0] else HELP[1]

    def _quit(self) -> None:
        self.over = True

    def _suspend(self) -> None:
        self.line = "Ctrl-Z is off while you play: p pauses, q quits"


def play(player: Player, face: Face, clock: Clock, frames_per_s: float) -> None:
    """Until the player quits, at the game's own speed."""
    ns_per_frame = _S / frames_per_s
    each = max(round(frames_per_s / face.pictures_per_s), 1)
    due = clock.now_ns() + each * ns_per_frame
    face.show(player.picture(), player.line)
    while not player.over:
        now = clock.now_ns()
        for command in face.commands(max(due - now, 0) / _S):  # also when late: a slow machine has a keyboard too
            player.obey(command, face.held())
        if now < due or player.over:
            continue
        due = max(due + each * ns_per_frame, now - MOST_BEHIND_NS)
        player.run(each, face.held())
        face.show(player.picture(), player.line)


@contextmanager
def orderly_end() -> Iterator[None]:
    """Signals that ask for an end are errors inside, so that files are kept and the terminal is left as it was.

    Only the first counts: a second one must not interrupt what is being kept.
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
    """Write a file under this name, or the first numbered one that is free.

    Raises:
        ConfigError: it cannot be written.
    """
    free = next(name for name in _names(path) if not name.exists())
    write_file(free, data, overwrite=False)
    return free


def _names(path: Path) -> Iterator[Path]:
    yield path
    for number in itertools.count(2):
        yield path.with_name(f"{path.stem}-{number}{path.suffix}")
