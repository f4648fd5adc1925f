"""One game in one slot of a pool, for the commands that play, record and replay it.

Native code runs in the worker only: a crash there is healed or reported, and the user's terminal stays intact.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ninelives.errors import CheckpointError, ConfigError, EmulatorError
from ninelives.pool.pool import Pool
from ninelives.sims.emulators.machine import Identity
from ninelives.sims.emulators.snapshot import Snapshot
from ninelives.spec.env import EnvSpec

if TYPE_CHECKING:
    from ninelives.sims.emulators.movies import Movie

CONSOLE = "ninelives.sims.emulators.pad_env:PadEnv"


@dataclass(frozen=True)
class ChosenGame:
    """The game that a command was given.

    Attributes:
        name: the game's id, or the ROM's file name.
        rom: the ROM file.
        id: the game's id; None for a plain ROM file.
    """

    name: str
    rom: Path
    id: str | None

    @property
    def stem(self) -> str:
        """Base name for files made from this game."""
        return self.rom.stem if self.id is None else self.id.partition("/")[2].partition("-v")[0].lower()


def find_game(game: str, rom: Path | None) -> ChosenGame:
    """Find a registered game by its id, or a ROM by its file name.

    Raises:
        ConfigError: it is neither; or ``rom`` is missing for a game that needs one, or given for one that has its own.
    """
    from ninelives.sims.games import GAMES, rom_of

    known = next((one for one in GAMES if one.id == game), None)
    if known is None:
        return _file_named(game, rom)
    if rom is None:
        if known.needs_rom:
            raise ConfigError(f"{known.id} needs your own ROM of {known.title}: pass the file with --rom")
        return ChosenGame(known.id, rom_of(known.id), known.id)
    if not known.needs_rom:
        raise ConfigError(
            f"{known.id} comes with its ROM: leave --rom {rom} out, or pass that file instead of the game"
        )
    check_rom_file(rom)
    return ChosenGame(known.id, rom.resolve(), known.id)


def _file_named(name: str, rom: Path | None) -> ChosenGame:
    path = Path(name)
    if not path.is_file():
        raise ConfigError(f"GAME {name!r} is neither a ROM file nor a game; {_nearest(name)}")
    if rom is not None:
        raise ConfigError(f"GAME {name!r} is a ROM file already; leave --rom {rom} out")
    return ChosenGame(path.name, path.resolve(), None)


def _nearest(name: str) -> str:
    """A suggestion: the game that was probably meant, or all of them."""
    from ninelives.sims.games import GAMES

    ids = {_bare(one.id): one.id for one in GAMES}
    near = difflib.get_close_matches(_bare(name), ids, n=1)
    return f"did you mean {ids[near[0]]}?" if near else f"games: {', '.join(ids.values())}"


def _bare(name: str) -> str:
    """Without the parts that all ids share, which would make any two names similar."""
    return re.sub(r"-v\d+$", "", name.lower().removeprefix("ninelives/"))


def check_rom_file(rom: Path) -> None:
    """Raise ConfigError if there is no such file."""
    if not rom.is_file():
        raise ConfigError(f"--rom {rom}: no such file")


def check_core(core: str | None) -> None:
    """Check that an emulator is installed before a worker is started.

    Raises:
        ConfigError: it is not; the message says how to install it.
    """
    from ninelives.sims.emulators.backends import BINDINGS
    from ninelives.sims.libretro.cores import find_core

    if core in BINDINGS:
        package = core.rpartition(":")[2]
        if importlib.util.find_spec(package) is None:
            install = importlib.import_module(BINDINGS[core][0]).INSTALL
            raise ConfigError(f"--core {core}: {package} is not installed; install it: {install}")
    elif core is not None:
        try:
            find_core(core)
        except EmulatorError as error:
            raise ConfigError(f"--core {core}: {error}") from None


def read_movie(path: Path) -> Movie:
    """Read a movie and check its start state.

    Raises:
        ConfigError: the file cannot be read.
        CheckpointError: it is not a movie, or it or its start state is truncated, damaged or of a newer version.
    """
    from ninelives.sims.emulators.movies import Movie

    movie = Movie.read(path)
    try:
        if movie.start:
            Snapshot.from_bytes(movie.start)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: its start state cannot be used: {error}") from error
    return movie


def check_movie_of(game: ChosenGame, movie: Movie, advice: str) -> None:
    """Check that a movie belongs to this ROM; ``advice`` ends the error message.

    Raises:
        CheckpointError: it belongs to another ROM; the message names both.
    """
    digest = hashlib.sha256(game.rom.read_bytes()).hexdigest()
    if digest != movie.identity.rom_sha256:
        theirs = movie.identity.rom_sha256[:16]
        raise CheckpointError(
            f"the movie was recorded with another ROM: SHA-256 {theirs}..., {game.rom.name} has {digest[:16]}...; "
            f"{advice}"
        )


def why_another_revision(game: ChosenGame) -> str:
    """Why the ROM is not the revision that the game is made for; empty if it is, or if any revision will do."""
    from ninelives.sims.games import GAMES
    from ninelives.sims.games.revisions import checked_rom

    known = next((one for one in GAMES if one.id == game.id and one.needs_rom), None)
    if known is None:
        return ""
    edition = importlib.import_module(known.factory.partition(":")[0]).EDITION
    try:
        checked_rom(game.rom, edition, any_revision=False)
    except ConfigError as error:
        return str(error)
    return ""


class GameSession:
    """A running game. Use it as a context manager."""

    def __init__(
        self,
        game: ChosenGame,
        *,
        core: str | None = None,
        start: bytes | None = None,
        frame_skip: int = 1,
        hashed: bool = False,
    ) -> None:
        """Start the game, at power-on or at ``start`` (the contents of a state file).

        Raises:
            CheckpointError: the state is damaged, or belongs to another game or core.
        """
        settings = {"core": core, "frame_skip": frame_skip, "hashed": hashed}
        self._pool = Pool(EnvSpec(CONSOLE, {"rom": str(game.rom), **settings}), 1, start_attempts=1)
        try:
            rows: Any = self._pool.reset(seed=0).obs
            self._seen: dict[str, Any] = {key: cells[0] for key, cells in rows.items()}
            (facts,) = self._pool.call("facts")
            self.game, self.frame_skip = game, frame_skip
            self.identity = Identity(**facts["identity"])
            self.buttons: tuple[str, ...] = tuple(facts["buttons"])
            self.frames_per_s: float = facts["frames_per_s"]
            self.begin_at(self.moment() if start is None else start, switched_on=start is None)
        except BaseException:
            self._pool.close()
            raise

    def __enter__(self) -> GameSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.close()

    @property
    def pid(self) -> int | None:
        """Process id of the game's worker; None while it is restarted."""
        return self._pool.worker_pids[0]

    def step(self, pad: int) -> bytes:
        """Hold these buttons for one step and return the hash of the result."""
        rows: Any = self._pool.step(np.array([pad])).obs
        self._seen = {key: cells[0] for key, cells in rows.items()}
        return bytes(self._seen["hash"])

    def picture(self) -> npt.NDArray[np.uint8]:
        """The current picture."""
        image: npt.NDArray[np.uint8] = self._seen["picture"]
        return image

    def moment(self) -> bytes:
        """The current state, as a state file contains it."""
        (moment,) = self._pool.call("moment")
        return bytes(moment)

    def begin_at(self, start: bytes, *, switched_on: bool = False) -> None:
        """Load the state from which the session starts; ``switched_on``: it is the state at power-on.

        Raises:
            CheckpointError: the state is damaged, or belongs to another game or core.
        """
        self.start, self.switched_on = start, switched_on
        self.go_to(start)

    def go_to(self, moment: bytes) -> None:
        """Load a state.

        Raises:
            CheckpointError: the state is damaged, or belongs to another game or core.
        """
        Snapshot.from_bytes(moment, self.identity)
        (self._seen,) = self._pool.call("go_to", moment)
