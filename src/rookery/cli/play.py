"""``rookery play GAME``: a person plays, in the terminal or a window, and saves states to start from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from rookery.cli.sheet import say
from rookery.errors import ConfigError

if TYPE_CHECKING:
    from rookery.cli.gameslot import GameFile, GameSlot
    from rookery.cli.playing import Player
    from rookery.cli.terminal import Terminal
    from rookery.cli.window import Window


@dataclass(frozen=True)
class Play:
    """Play a game with the keyboard, to make start states and movies.

    Arrows move, x is A, z is B, enter is start, space is select. 1 saves a state, 2 loads it, p pauses, . advances one
    frame, f is fast, h shows the keys, q quits. States are numbered and never overwritten.

    For example:
    $ rookery play rookery/Errand-v0
    $ rookery play game.gba --state start.rook --out mystate.rook
    $ rookery play rookery/Emerald-v0 --rom emerald.gba --window
    """

    game: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="GAME|ROM")]
    """A game's id like rookery/Errand-v0, or a ROM's file."""

    rom: Path | None = None
    """Your own ROM, for games that need one."""

    state: Path | None = None
    """Where to begin; by default at power-on."""

    out: Path | None = None
    """Name of the states that are saved; the second gets a number. By default the game's name in this directory."""

    movie: Path | None = None
    """Record what is played to this file."""

    core: str | None = None
    """The emulator's core by name or file; by default the best that is found."""

    window: bool = False
    """Play in a window instead of the terminal; needs pygame."""

    def run(self) -> int:
        """Play until the player quits."""
        from rookery.cli.gameslot import GameSlot, find_game, why_another_revision

        game = find_game(self.game, self.rom)
        if self.movie is not None and self.movie.exists():
            raise ConfigError(f"--movie {self.movie}: is there already; give another name")
        start, face = self._start(), self._face(game)
        with GameSlot(game, core=self.core, start=start, hashed=self.movie is not None) as slot:
            player = self._played(slot, face)
        if words := why_another_revision(game):
            say(words, "[yellow]warning[/]")
        for path in player.states:
            say(f"{path}: a state; begin episodes there with state={str(path)!r}")
        return 0

    def _played(self, slot: GameSlot, face: Terminal | Window) -> Player:
        from rookery.cli.playing import Player, play
        from rookery.clock import SystemClock
        from rookery.sims.movies import Recorder
        from rookery.sims.state_files import SUFFIX

        recorder = self.movie and Recorder(slot.identity, slot.frame_skip, slot.game.name, slot.start)
        player = Player(slot, self.out or Path(slot.game.stem + SUFFIX), recorder or None)
        try:
            with face:
                play(player, face, SystemClock(), slot.frames_per_s)
        finally:
            if self.movie and recorder:
                recorder.movie().write(self.movie)
                say(f"{self.movie}: {player.frames:,} frames; look at them with rookery replay {self.movie}")
        return player

    def _face(self, game: GameFile) -> Terminal | Window:
        if self.window:
            from rookery.cli.window import Window

            return Window(game.name)
        from rookery.cli.terminal import Terminal
        from rookery.clock import SystemClock

        return Terminal(SystemClock())

    def _start(self) -> bytes | None:
        if self.state is None:
            return None
        from rookery.sims.state_files import read_snapshot

        read_snapshot(self.state)
        return self.state.read_bytes()
