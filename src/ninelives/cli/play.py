"""``ninelives play GAME``: play in the terminal or a window, and save states to start episodes from."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from ninelives.cli.reporting.verdict_table import say
from ninelives.errors import ConfigError

if TYPE_CHECKING:
    from ninelives.console.game_session import ChosenGame, GameSession
    from ninelives.console.terminal import TerminalScreen
    from ninelives.console.window import WindowScreen
    from ninelives.sims.emulators.movies import Movie, MovieRecorder


@dataclass(frozen=True)
class PlayCommand:
    """Play a game with the keyboard, to create start states and movies.

    Arrows move, x is A, z is B, enter is start, space is select. 1 saves a state, 2 loads it, p pauses, . advances one
    frame, f toggles fast mode, h shows the keys, q quits. State files are numbered and never overwritten. Ctrl-Z is
    disabled.

    For example:
    $ ninelives play ninelives/Errand-v0
    $ ninelives play game.gba --state start.rook --out mystate.rook
    $ ninelives play ninelives/Emerald-v0 --rom emerald.gba --window
    """

    game: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="GAME|ROM")]
    """A game id such as ninelives/Errand-v0, or a ROM file."""

    rom: Path | None = None
    """Your own ROM, for games that need one."""

    state: Path | None = None
    """State file to start from; by default power-on."""

    out: Path | None = None
    """File name for saved states; from the second on, a number is added. By default the game's name."""

    movie: Path | None = None
    """Record the session to this movie file."""

    core: str | None = None
    """Emulator core, by name or file; by default the best one installed."""

    window: bool = False
    """Play in a window instead of the terminal; needs pygame."""

    def run(self) -> int:
        """Play until the user quits; exit code 1 if the movie could not be written to its file."""
        from ninelives.console.game_session import GameSession, check_core, find_game, why_another_revision

        game = find_game(self.game, self.rom)
        check_core(self.core)
        self._check_names()
        start, screen = self._start(), self._screen(game)
        with GameSession(game, core=self.core, start=start, hashed=self.movie is not None) as session:
            kept = self._play(session, screen)
        if words := why_another_revision(game):
            say(words, "[yellow]warning[/]")
        return 0 if kept else 1

    def _check_names(self) -> None:
        from ninelives.sims.emulators.movies import check_place

        if self.movie is not None:
            if self.movie.exists():
                raise ConfigError(f"--movie {self.movie} exists already; choose another name")
            check_place(self.movie, "--movie")
        if self.out is not None:
            check_place(self.out, "--out")

    def _play(self, session: GameSession, screen: TerminalScreen | WindowScreen) -> bool:
        """Run the game; whether all files were written to where they belong."""
        from ninelives.clock import SystemClock
        from ninelives.console.playing import GameControls, orderly_end, play
        from ninelives.sims.emulators.state_files import SUFFIX

        recorder = self._recorder(session)
        controls = GameControls(session, self.out or Path(session.game.stem + SUFFIX), recorder)
        kept = True
        with orderly_end():
            try:
                with screen:
                    play(controls, screen, SystemClock(), session.frames_per_s)
            finally:
                if self.movie is not None and recorder is not None:
                    kept = _write_movie(recorder.movie(), self.movie)
                for path in controls.states:
                    say(f"{path}: saved state; start episodes from it with state={str(path)!r}")
        return kept

    def _recorder(self, session: GameSession) -> MovieRecorder | None:
        from ninelives.sims.emulators.movies import MovieRecorder

        if self.movie is None:
            return None
        return MovieRecorder(
            session.identity, session.frame_skip, session.game.name, session.start, switched_on=session.switched_on
        )

    def _screen(self, game: ChosenGame) -> TerminalScreen | WindowScreen:
        if self.window:
            from ninelives.console.window import WindowScreen

            return WindowScreen(game.name)
        from ninelives.clock import SystemClock
        from ninelives.console.terminal import TerminalScreen

        return TerminalScreen(SystemClock(), "ninelives play", "or use --window")

    def _start(self) -> bytes | None:
        if self.state is None:
            return None
        from ninelives.sims.emulators.state_files import read_snapshot

        read_snapshot(self.state)
        return self.state.read_bytes()


def _write_movie(movie: Movie, path: Path) -> bool:
    """Write the movie, which cannot be repeated: to its file or, if that fails, to a temporary directory."""
    place = path
    try:
        movie.write(path)
    except ConfigError as error:
        place = Path(tempfile.mkdtemp(prefix="ninelives-"), path.name)
        movie.write(place)
        say(f"{error}; the movie was saved to {place}", "[yellow]warning[/]")
    say(f"{place}: {movie.steps:,} frames; replay them with ninelives replay {place}")
    return place == path
