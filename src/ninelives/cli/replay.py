"""``ninelives replay MOVIE``: repeats a movie's inputs and compares every step with the recording."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from ninelives.cli.reporting.verdict_table import say
from ninelives.errors import CheckpointError, ConfigError

if TYPE_CHECKING:
    from ninelives.console.game_session import ChosenGame, GameSession
    from ninelives.sims.emulators.machine import Identity
    from ninelives.sims.emulators.movies import Movie

_CORE_OF_BACKEND = {"mgba": "bindings:mgba", "cynes": "cynes"}
"""Names for --core of the backends that are not libretro cores."""

_AGAIN = "record a new movie from the same inputs: ninelives record GAME --inputs-of"


@dataclass(frozen=True)
class ReplayCommand:
    """Replay an input movie, compare a hash of picture and memory at every step, and report the first difference.

    For example:
    $ ninelives replay walk.movie
    $ ninelives replay demo.movie --rom game.gba --watch
    """

    movie: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="MOVIE")]
    """Movie file from ninelives record or ninelives play."""

    rom: Path | None = None
    """The ROM file; not needed for games that come with Ninelives."""

    core: str | None = None
    """Emulator core, by name or file; by default the best one installed."""

    watch: bool = False
    """Show the replay in the terminal at the game's own speed; q quits."""

    def run(self) -> int:
        """Replay and report; exit code 1 if a step differs."""
        from ninelives.console.game_session import GameSession, check_core, read_movie
        from ninelives.console.playing import orderly_end

        movie = read_movie(self.movie)
        game = _game_of(movie, self.rom)
        check_core(self.core)
        screen = self._screen()
        with GameSession(game, core=self.core, frame_skip=movie.frame_skip, hashed=True) as session:
            self._check_emulator(movie.identity, session.identity)
            session.go_to(movie.start or session.start)
            with orderly_end(), screen as shown:
                compared, same = _compared(session, movie, shown)
        return self._conclude(movie, compared, same)

    def _check_emulator(self, theirs: Identity, ours: Identity) -> None:
        """Raise CheckpointError if the movie was recorded with another emulator; its ROM is known to match."""
        if theirs == ours:
            return
        same_core = (theirs.backend, theirs.core) == (ours.backend, ours.core)
        remedy = "use that version" if same_core else f"pass --core {_core_named(theirs)}"
        raise CheckpointError(
            f"{self.movie} was recorded with {_emulator(theirs)}; this is {_emulator(ours)}, which may behave "
            f"differently; {remedy}, or {_AGAIN} {self.movie} --out NEW"
        )

    def _screen(self) -> Any:
        if not self.watch:
            return nullcontext()
        from ninelives.clock import SystemClock
        from ninelives.console.terminal import TerminalScreen

        return TerminalScreen(SystemClock(), "--watch", "leave it out to compare only")

    def _conclude(self, movie: Movie, compared: int, same: bool) -> int:
        if not same:
            before = "all steps before it match" if compared > 1 else "it is the first step"
            say(f"{self.movie}: step {compared} of {movie.steps:,} differs from the recording; {before}")
            return 1
        if compared < movie.steps:
            say(f"{self.movie}: stopped after step {compared:,} of {movie.steps:,}; all of them match the recording")
            return 0
        say(f"{self.movie}: all {movie.steps:,} steps match the recording, picture and memory")
        return 0


def _game_of(movie: Movie, rom: Path | None) -> ChosenGame:
    """The game that the movie was recorded with.

    Raises:
        ConfigError: its ROM is not known here.
        CheckpointError: the ROM is another one.
    """
    from ninelives.console.game_session import check_movie_of, check_rom_file, find_game
    from ninelives.sims.games import GAMES

    known = next((one for one in GAMES if one.id == movie.game), None)
    if rom is None and (known is None or known.needs_rom):
        raise ConfigError(f"the movie was recorded with {movie.game!r}, which does not come with Ninelives: pass --rom")
    if rom is not None:
        check_rom_file(rom)
    game = find_game(movie.game if rom is None else str(rom), None)
    check_movie_of(game, movie, "pass the ROM it was recorded with as --rom")
    return game


def _core_named(identity: Identity) -> str:
    """The emulator's name for --core: core files are named after the core."""
    return _CORE_OF_BACKEND.get(identity.backend, identity.core.lower().replace(" ", "_"))


def _emulator(identity: Identity) -> str:
    return f"{identity.core} {identity.version} ({identity.backend})"


def _compared(session: GameSession, movie: Movie, screen: Any) -> tuple[int, bool]:
    """Number of compared steps, and whether all of them match."""
    compared = 0
    for compared, same in enumerate(_steps(session, movie), 1):
        if not same:
            return compared, False
        if screen is not None and _shown(session, screen, compared, f"step {compared:,} of {movie.steps:,}   q: quit"):
            break
    return compared, True


def _steps(session: GameSession, movie: Movie) -> Iterator[bool]:
    for step, pad in enumerate(movie.pads):
        yield session.step(pad) == movie.hash_of(step)


def _shown(session: GameSession, screen: Any, step: int, line: str) -> bool:
    """Show a step for its duration, skipping some if they are short; whether the user has quit."""
    step_s = session.frame_skip / session.frames_per_s
    each = max(round(1 / (step_s * screen.pictures_per_s)), 1)
    if step % each:
        return False
    screen.show(session.picture(), line)
    return "quit" in list(screen.commands(each * step_s))
