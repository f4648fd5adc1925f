"""One game in one slot of a pool, as the commands for people use it: a ROM or a game's id in, pictures out.

Native code runs in the worker only. What crashes there is healed, or told; the terminal of whoever plays is safe.
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
class GameFile:
    """What a command is about.

    Attributes:
        name: the game's id, or its file's name.
        rom: its file.
        id: its id; None for a mere file.
    """

    name: str
    rom: Path
    id: str | None

    @property
    def stem(self) -> str:
        """A name for files made of it."""
        return self.rom.stem if self.id is None else self.id.partition("/")[2].partition("-v")[0].lower()


def find_game(game: str, rom: Path | None) -> GameFile:
    """A registered game by its id, or a ROM by its file's name.

    Raises:
        ConfigError: neither, a game that needs a ROM without one, or one that brings its own with another.
    """
    from ninelives.sims.games import GAMES, rom_of

    known = next((one for one in GAMES if one.id == game), None)
    if known is None:
        return _file_named(game, rom)
    if rom is None:
        if known.needs_rom:
            raise ConfigError(f"{known.id} needs your own ROM of {known.title}: give its file with --rom")
        return GameFile(known.id, rom_of(known.id), known.id)
    if not known.needs_rom:
        raise ConfigError(
            f"{known.id} comes with its ROM: leave --rom {rom} out, or give that file instead of the game"
        )
    check_rom_file(rom)
    return GameFile(known.id, rom.resolve(), known.id)


def _file_named(name: str, rom: Path | None) -> GameFile:
    path = Path(name)
    if not path.is_file():
        raise ConfigError(f"GAME {name!r} is neither a ROM's file nor a game; {_nearest(name)}")
    if rom is not None:
        raise ConfigError(f"GAME {name!r} is a ROM's file, and --rom {rom} another; give one of them")
    return GameFile(path.name, path.resolve(), None)


def _nearest(name: str) -> str:
    """The game that was probably meant, or all there are."""
    from ninelives.sims.games import GAMES

    ids = {_bare(one.id): one.id for one in GAMES}
    near = difflib.get_close_matches(_bare(name), ids, n=1)
    return f"did you mean {ids[near[0]]}?" if near else f"games: {', '.join(ids.values())}"


def _bare(name: str) -> str:
    """Without what all ids share, in which any two names would be near each other."""
    return re.sub(r"-v\d+$", "", name.lower().removeprefix("ninelives/"))


def check_rom_file(rom: Path) -> None:
    """Raises ConfigError: there is no file of this name."""
    if not rom.is_file():
        raise ConfigError(f"--rom {rom}: there is no such file")


def check_core(core: str | None) -> None:
    """Refuse an emulator that is not there, before a worker looks for it.

    Raises:
        ConfigError: the message says how to install it.
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
    """A movie whose start is whole.

    Raises:
        ConfigError: it cannot be read.
        CheckpointError: it is no movie, cut short, damaged or newer, or its start is.
    """
    from ninelives.sims.emulators.movies import Movie

    movie = Movie.read(path)
    try:
        if movie.start:
            Snapshot.from_bytes(movie.start)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: its start cannot be used: {error}") from error
    return movie


def check_movie_of(game: GameFile, movie: Movie, advice: str) -> None:
    """Refuse a movie of another ROM; ``advice``: what to do then.

    Raises:
        CheckpointError: naming both.
    """
    digest = hashlib.sha256(game.rom.read_bytes()).hexdigest()
    if digest != movie.identity.rom_sha256:
        theirs = movie.identity.rom_sha256[:16]
        raise CheckpointError(
            f"the movie was recorded with another ROM: SHA-256 {theirs}..., {game.rom.name} has {digest[:16]}...; "
            f"{advice}"
        )


def why_another_revision(game: GameFile) -> str:
    """Words about a ROM that is not the revision its game is made for; empty if it is, or if any will do."""
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


class GameSlot:
    """A running game; a context manager."""

    def __init__(
        self,
        game: GameFile,
        *,
        core: str | None = None,
        start: bytes | None = None,
        frame_skip: int = 1,
        hashed: bool = False,
    ) -> None:
        """Open the game, at power-on or at ``start``, the bytes of a state file.

        Raises:
            CheckpointError: the state is damaged, or another game's or core's.
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

    def __enter__(self) -> GameSlot:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.close()

    @property
    def pid(self) -> int | None:
        """Of the worker in which the game runs; None while it is brought back."""
        return self._pool.worker_pids[0]

    def step(self, pad: int) -> bytes:
        """Hold a pad for a step; the hash of what came of it."""
        rows: Any = self._pool.step(np.array([pad])).obs
        self._seen = {key: cells[0] for key, cells in rows.items()}
        return bytes(self._seen["hash"])

    def picture(self) -> npt.NDArray[np.uint8]:
        """What is seen now."""
        image: npt.NDArray[np.uint8] = self._seen["picture"]
        return image

    def moment(self) -> bytes:
        """This moment as a state file holds it."""
        (moment,) = self._pool.call("moment")
        return bytes(moment)

    def begin_at(self, start: bytes, *, switched_on: bool = False) -> None:
        """Be where the game is to begin; ``switched_on``: that is the machine's first moment.

        Raises:
            CheckpointError: it is damaged, or another game's or core's.
        """
        self.start, self.switched_on = start, switched_on
        self.go_to(start)

    def go_to(self, moment: bytes) -> None:
        """Be at a moment.

        Raises:
            CheckpointError: it is damaged, or another game's or core's.
        """
        Snapshot.from_bytes(moment, self.identity)
        (self._seen,) = self._pool.call("go_to", moment)
