"""``ninelives replay MOVIE``: plays a movie's inputs again and compares every step with what was recorded."""

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
    from ninelives.console.game_session import GameFile, GameSlot
    from ninelives.sims.emulators.machine import Identity
    from ninelives.sims.emulators.movies import Movie

_CORE_OF_BACKEND = {"mgba": "bindings:mgba", "cynes": "cynes"}
"""What --core calls the backends that are no libretro cores."""

_AGAIN = "make a new movie of the same inputs: ninelives record GAME --inputs-of"


@dataclass(frozen=True)
class Replay:
    """Replay an input movie and compare a hash of picture and memory at every step; says the first that differs.

    For example:
    $ ninelives replay walk.movie
    $ ninelives replay demo.movie --rom game.gba --watch
    """

    movie: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="MOVIE")]
    """A movie that ninelives record or ninelives play made."""

    rom: Path | None = None
    """The ROM; not needed for games that come with Ninelives."""

    core: str | None = None
    """The emulator's core by name or file; by default the best that is found."""

    watch: bool = False
    """Show it in the terminal, at the game's own speed; q quits."""

    def run(self) -> int:
        """Replay and say; 1 if a step differs."""
        from ninelives.console.game_session import GameSlot, check_core, read_movie
        from ninelives.console.playing import orderly_end

        movie = read_movie(self.movie)
        game = _game_of(movie, self.rom)
        check_core(self.core)
        face = self._face()
        with GameSlot(game, core=self.core, frame_skip=movie.frame_skip, hashed=True) as slot:
            self._check_emulator(movie.identity, slot.identity)
            slot.go_to(movie.start or slot.start)
            with orderly_end(), face as shown:
                seen, same = _compared(slot, movie, shown)
        return self._conclude(movie, seen, same)

    def _check_emulator(self, theirs: Identity, ours: Identity) -> None:
        """Raises CheckpointError: the movie is another emulator's; its ROM is known to be the same."""
        if theirs == ours:
            return
        same_core = (theirs.backend, theirs.core) == (ours.backend, ours.core)
        remedy = "use that version" if same_core else f"give --core {_core_named(theirs)}"
        raise CheckpointError(
            f"{self.movie}: the movie was recorded with {_emulator(theirs)}, and this is {_emulator(ours)}, which need "
            f"not play alike; {remedy}, or {_AGAIN} {self.movie} --out NEW"
        )

    def _face(self) -> Any:
        if not self.watch:
            return nullcontext()
        from ninelives.clock import SystemClock
        from ninelives.console.terminal import Terminal

        return Terminal(SystemClock(), "--watch", "leave it out to compare only")

    def _conclude(self, movie: Movie, seen: int, same: bool) -> int:
        if not same:
            before = "all before it are as recorded" if seen > 1 else "it is the first"
            say(f"{self.movie}: step {seen} of {movie.steps:,} differs from the recording; {before}")
            return 1
        if seen < movie.steps:
            say(f"{self.movie}: stopped after step {seen:,} of {movie.steps:,}; all are as recorded")
            return 0
        say(f"{self.movie}: all {movie.steps:,} steps are as recorded, picture and memory")
        return 0


def _game_of(movie: Movie, rom: Path | None) -> GameFile:
    """The game's file, which must be the very one.

    Raises:
        ConfigError: it is not known where the ROM is.
        CheckpointError: it is another ROM.
    """
    from ninelives.console.game_session import check_movie_of, check_rom_file, find_game
    from ninelives.sims.games import GAMES

    known = next((one for one in GAMES if one.id == movie.game), None)
    if rom is None and (known is None or known.needs_rom):
        raise ConfigError(f"the movie was recorded with {movie.game!r}, which does not come with Ninelives: give --rom")
    if rom is not None:
        check_rom_file(rom)
    game = find_game(movie.game if rom is None else str(rom), None)
    check_movie_of(game, movie, "give the ROM it was recorded with as --rom")
    return game


def _core_named(identity: Identity) -> str:
    """The emulator as --core takes it: cores are files, named after what the core calls itself."""
    return _CORE_OF_BACKEND.get(identity.backend, identity.core.lower().replace(" ", "_"))


def _emulator(identity: Identity) -> str:
    return f"{identity.core} {identity.version} ({identity.backend})"


def _compared(slot: GameSlot, movie: Movie, face: Any) -> tuple[int, bool]:
    """Steps that were looked at, and whether they were all as recorded."""
    seen = 0
    for seen, same in enumerate(_steps(slot, movie), 1):
        if not same:
            return seen, False
        if face is not None and _shown(slot, face, seen, f"step {seen:,} of {movie.steps:,}   q: quit"):
            break
    return seen, True


def _steps(slot: GameSlot, movie: Movie) -> Iterator[bool]:
    for step, pad in enumerate(movie.pads):
        yield slot.step(pad) == movie.hash_of(step)


def _shown(slot: GameSlot, face: Any, step: int, line: str) -> bool:
    """Show a step as long as it takes, leaving some out where they are short; whether the viewer has seen enough."""
    step_s = slot.frame_skip / slot.frames_per_s
    each = max(round(1 / (step_s * face.pictures_per_s)), 1)
    if step % each:
        return False
    face.show(slot.picture(), line)
    return "quit" in list(face.commands(each * step_s))
