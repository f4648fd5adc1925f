"""``ninelives play GAME``: a person plays, in the terminal or a window, and saves states to start from."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from ninelives.cli.reporting.verdict_table import say
from ninelives.errors import ConfigError

if TYPE_CHECKING:
    from ninelives.console.game_session import GameFile, GameSlot
    from ninelives.console.terminal import Terminal
    from ninelives.console.window import Window
    from ninelives.sims.emulators.movies import Movie, MovieRecorder


@dataclass(frozen=True)
class Play:
    """Play a game with the keyboard, to make start states and movies.

    Arrows move, x is A, z is B, enter is start, space is select. 1 saves a state, 2 loads it, p pauses, . advances one
    frame, f is fast, h shows the keys, q quits. States are numbered and never overwritten. Ctrl-Z is off meanwhile.

    For example:
    $ ninelives play ninelives/Errand-v0
    $ ninelives play game.gba --state start.rook --out mystate.rook
    $ ninelives play ninelives/Emerald-v0 --rom emerald.gba --window
    """

    game: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="GAME|ROM")]
    """A game's id like ninelives/Errand-v0, or a ROM's file."""

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
        """Play until the player quits; 1 if the movie could not be written where it should be."""
        from ninelives.console.game_session import GameSlot, check_core, find_game, why_another_revision

        game = find_game(self.game, self.rom)
        check_core(self.core)
        self._check_names()
        start, face = self._start(), self._face(game)
        with GameSlot(game, core=self.core, start=start, hashed=self.movie is not None) as slot:
            kept = self._played(slot, face)
        if words := why_another_revision(game):
            say(words, "[yellow]warning[/]")
        return 0 if kept else 1

    def _check_names(self) -> None:
        from ninelives.sims.emulators.movies import check_place

        if self.movie is not None:
            if self.movie.exists():
                raise ConfigError(f"--movie {self.movie}: is there already; give another name")
            check_place(self.movie, "--movie")
        if self.out is not None:
            check_place(self.out, "--out")

    def _played(self, slot: GameSlot, face: Terminal | Window) -> bool:
        """Whether all that was made is where it should be."""
        from ninelives.clock import SystemClock
        from ninelives.console.playing import Player, orderly_end, play
        from ninelives.sims.emulators.state_files import SUFFIX

        recorder = self._recorder(slot)
        player = Player(slot, self.out or Path(slot.game.stem + SUFFIX), recorder)
        kept = True
        with orderly_end():
            try:
                with face:
                    play(player, face, SystemClock(), slot.frames_per_s)
            finally:
                if self.movie is not None and recorder is not None:
                    kept = _kept(recorder.movie(), self.movie)
                for path in player.states:
                    say(f"{path}: a state; begin episodes there with state={str(path)!r}")
        return kept

    def _recorder(self, slot: GameSlot) -> MovieRecorder | None:
        from ninelives.sims.emulators.movies import MovieRecorder

        if self.movie is None:
            return None
        return MovieRecorder(slot.identity, slot.frame_skip, slot.game.name, slot.start, switched_on=slot.switched_on)

    def _face(self, game: GameFile) -> Terminal | Window:
        if self.window:
            from ninelives.console.window import Window

            return Window(game.name)
        from ninelives.clock import SystemClock
        from ninelives.console.terminal import Terminal

        return Terminal(SystemClock(), "ninelives play", "or use --window")

    def _start(self) -> bytes | None:
        if self.state is None:
            return None
        from ninelives.sims.emulators.state_files import read_snapshot

        read_snapshot(self.state)
        return self.state.read_bytes()


def _kept(movie: Movie, path: Path) -> bool:
    """Write what cannot be played again: under its name, or, where that has become impossible, elsewhere."""
    place = path
    try:
        movie.write(path)
    except ConfigError as error:
        place = Path(tempfile.mkdtemp(prefix="ninelives-"), path.name)
        movie.write(place)
        say(f"{error}; the movie is kept in {place}", "[yellow]warning[/]")
    say(f"{place}: {movie.steps:,} frames; look at them with ninelives replay {place}")
    return place == path
