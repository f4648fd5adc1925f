"""``ninelives record GAME``: writes an input movie from random actions, a script, a file or another movie."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from ninelives.cli.reporting.verdict_table import say
from ninelives.cli.target import env_spec
from ninelives.errors import ConfigError
from ninelives.view.words import plural

if TYPE_CHECKING:
    import numpy.typing as npt

    from ninelives.console.game_session import ChosenGame, GameSession
    from ninelives.sims.emulators.movies import Movie

RANDOM = "random"
FRAME_SKIP = 4
"""For a plain ROM, which has no environment to define it."""


@dataclass(frozen=True)
class MovieStart:
    """Where a movie starts and which actions it may use: as the game's environment does, or for a plain ROM."""

    start: bytes | None
    actions: tuple[str, ...]
    frame_skip: int


@dataclass(frozen=True)
class RecordCommand:
    """Record an input movie: the start state, the buttons held at every step, and a hash of every result.

    For example:
    $ ninelives record ninelives/Errand-v0 --out walk.movie --steps 300
    $ ninelives record ninelives/Errand-v0 --out way.movie --keys right:20 down:3 a:1 noop:30
    $ ninelives record game.gba --out demo.movie --state start.rook --actions actions.npy
    """

    game: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="GAME|ROM")]
    """A game id such as ninelives/Errand-v0, or a ROM file."""

    out: Path
    """Movie file to write."""

    rom: Path | None = None
    """Your own ROM, for games that need one."""

    state: Path | None = None
    """State file to start from; by default where the game's episodes start, or power-on for a ROM."""

    actions: Annotated[str, tyro.conf.arg(metavar="random|FILE")] = RANDOM
    """Random actions, or a .npy file with the indices of the game's actions."""

    keys: Annotated[tuple[str, ...], tyro.conf.arg(metavar="[ACTION:STEPS ...]")] = ()
    """Which buttons to hold for how many steps, instead of --actions."""

    inputs_of: Path | None = None
    """Repeat the inputs of this movie from its start, for example to convert it to another emulator version."""

    steps: int = 1000
    """Number of random steps."""

    seed: int = 0
    """Seed of the random actions and of the game's environment."""

    frame_skip: int | None = None
    """Frames per step; by default that of the other movie or of the game's environment, or 4."""

    core: str | None = None
    """Emulator core, by name or file; by default the best one installed."""

    env_kwargs: Annotated[tuple[str, ...], tyro.conf.arg(metavar="[KEY=VALUE ...]")] = ()
    """Keyword arguments of the game's environment."""

    def run(self) -> int:
        """Record, and print what was recorded."""
        from ninelives.console.game_session import GameSession, check_core, find_game

        self._check()
        game = find_game(self.game, self.rom)
        check_core(self.core)
        if self.env_kwargs and game.id is None:
            raise ConfigError(f"--env-kwargs are for games with an environment; {self.game!r} is a plain ROM")
        old = self._old(game)
        start = self._start(game) if old is None else self._start_of_repeat(game, old)
        with GameSession(game, core=self.core, start=start.start, frame_skip=start.frame_skip, hashed=True) as session:
            if old is not None and self.state is None:
                self._load_start_of(session, old)
            movie = _recorded(session, self._pads(session, start) if old is None else iter(old.pads))
        movie.write(self.out)
        size = self.out.stat().st_size
        say(f"{self.out}: {plural(movie.steps, 'step')} of {plural(movie.frame_skip, 'frame')}, {size:,} bytes")
        return 0

    def _check(self) -> None:
        """Check all settings that can be checked before a worker is started."""
        from ninelives.sims.emulators.movies import check_place
        from ninelives.sims.emulators.state_files import read_snapshot

        chosen = [self.actions != RANDOM, bool(self.keys), self.inputs_of is not None]
        if sum(chosen) > 1:
            raise ConfigError("--actions, --keys and --inputs-of exclude each other: choose one")
        self._check_numbers()
        if self.out.exists():
            raise ConfigError(f"--out {self.out} exists already; choose another name")
        check_place(self.out, "--out")
        if self.state is not None:
            read_snapshot(self.state)
        if self.actions != RANDOM:
            _read(Path(self.actions))

    def _check_numbers(self) -> None:
        from ninelives.sims.emulators.actions import pad_named
        from ninelives.sims.emulators.movies import LONGEST_STEPS, MOST_FRAME_SKIP

        if not 1 <= self.steps <= LONGEST_STEPS:
            raise ConfigError(f"--steps {self.steps} must be at least 1 and at most {LONGEST_STEPS:,}")
        if self.frame_skip is not None and not 1 <= self.frame_skip <= MOST_FRAME_SKIP:
            raise ConfigError(f"--frame-skip {self.frame_skip} must be a whole number from 1 to {MOST_FRAME_SKIP}")
        script = _script(self.keys)
        for name in dict.fromkeys(name for name, _ in script):
            pad_named(name)
        if (steps := sum(steps for _, steps in script)) > LONGEST_STEPS:
            raise ConfigError(f"--keys make {steps:,} steps; a movie has at most {LONGEST_STEPS:,}")

    def _old(self, game: ChosenGame) -> Movie | None:
        """The movie to repeat, if any; it must have this ROM and the requested frame skip.

        Raises:
            ConfigError: another frame skip was requested.
            CheckpointError: the movie is damaged, or belongs to another ROM.
        """
        from ninelives.console.game_session import check_movie_of, read_movie

        if self.inputs_of is None:
            return None
        old = read_movie(self.inputs_of)
        kwargs = env_spec(game.id, self.env_kwargs).kwargs if game.id is not None else {}
        asked = self.frame_skip or kwargs.get("frame_skip", old.frame_skip)
        if asked != old.frame_skip:
            raise ConfigError(
                f"--inputs-of {self.inputs_of} has {plural(old.frame_skip, 'frame')} per step, not {asked}: its "
                "inputs would mean something else; leave the frame skip out"
            )
        check_movie_of(game, old, "pass a movie of this ROM, or the ROM of that movie")
        return old

    def _start_of_repeat(self, game: ChosenGame, old: Movie) -> MovieStart:
        """Start of a repeated movie: everything but the start state is the old movie's."""
        if self.state is None:
            return MovieStart(None, (), old.frame_skip)
        return dataclasses.replace(self._start(game), frame_skip=old.frame_skip)

    def _load_start_of(self, session: GameSession, old: Movie) -> None:
        """Load the old movie's start state or, if this emulator cannot load it, the nearest equivalent."""
        from ninelives.sims.emulators.snapshot import Snapshot

        whose = Snapshot.from_bytes(old.start).identity if old.start else None
        if whose == session.identity:
            session.begin_at(old.start, switched_on=old.switched_on)
        elif not old.begins_at_power_on and whose is not None:
            own = self._start(session.game)
            where = "at power-on" if own.start is None else "where the game's own episodes start"
            say(
                f"{self.inputs_of} starts from a state of {whose.core} {whose.version} ({whose.backend}), which "
                f"{session.identity.core} {session.identity.version} ({session.identity.backend}) cannot load: the "
                f"new movie starts {where}; use --state to choose another start"
            )
            if own.start is not None:
                session.begin_at(own.start)

    def _start(self, game: ChosenGame) -> MovieStart:
        from ninelives.sims.emulators.actions import DIRECTIONS
        from ninelives.sims.emulators.state_files import read_snapshot

        if game.id is not None:
            return self._start_of_game(game, game.id)
        start = None
        if self.state is not None:
            start = dataclasses.replace(read_snapshot(self.state), wrapper={}, rng={}).to_bytes(compress=True)
        return MovieStart(start, DIRECTIONS, self.frame_skip or FRAME_SKIP)

    def _start_of_game(self, game: ChosenGame, name: str) -> MovieStart:
        """What the game's own environment has after a reset, in a worker."""
        from ninelives.pool.pool import Pool
        from ninelives.sims.emulators.snapshot import Snapshot

        files = {"rom": self.rom, "state": self.state}
        asked: dict[str, Any] = {key: path and str(path.resolve()) for key, path in files.items()}
        asked |= {"core": self.core, "frame_skip": self.frame_skip}
        spec = env_spec(name, self.env_kwargs)
        kwargs = {**{key: value for key, value in asked.items() if value is not None}, **spec.kwargs}
        with Pool(dataclasses.replace(spec, kwargs=kwargs), 1, start_attempts=1) as pool:
            pool.reset(seed=self.seed)
            (state,) = pool.call("save_state")
        snapshot = Snapshot.from_bytes(state)
        settings: dict[str, Any] = snapshot.wrapper["settings"]
        start = dataclasses.replace(snapshot, wrapper={}, rng={}).to_bytes(compress=True)
        return MovieStart(start, tuple(settings["actions"]), settings["frame_skip"])

    def _pads(self, session: GameSession, start: MovieStart) -> Iterator[int]:
        from ninelives.sims.emulators.actions import pad_named

        if self.keys:
            return _held([(pad_named(name, session.buttons), steps) for name, steps in _script(self.keys)])
        pads = [pad_named(name, session.buttons) for name in start.actions]
        if self.actions == RANDOM:
            return islice((pads[number] for number in _drawn(len(pads), self.seed)), self.steps)
        return (pads[number] for number in _chosen(Path(self.actions), len(pads)))


def _recorded(session: GameSession, pads: Iterator[int]) -> Movie:
    from ninelives.sims.emulators.movies import MovieRecorder

    recorder = MovieRecorder(
        session.identity, session.frame_skip, session.game.name, session.start, switched_on=session.switched_on
    )
    for pad in pads:
        recorder.note(pad, session.step(pad))
    return recorder.movie()


def _drawn(choices: int, seed: int) -> Iterator[int]:
    import numpy as np

    rng = np.random.default_rng(seed)
    while True:
        yield int(rng.integers(choices))


def _read(path: Path) -> npt.NDArray[Any]:
    import numpy as np

    from ninelives.sims.emulators.movies import LONGEST_STEPS

    try:
        numbers = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ConfigError(f"--actions {path}: not a .npy file of numbers: {error}") from None
    if not isinstance(numbers, np.ndarray) or numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise ConfigError(f"--actions {path}: must be a one-dimensional array of integers, one per step")
    if not 1 <= len(numbers) <= LONGEST_STEPS:
        raise ConfigError(f"--actions {path}: has {len(numbers):,} steps; a movie has 1 to {LONGEST_STEPS:,}")
    return numbers


def _chosen(path: Path, choices: int) -> list[int]:
    numbers = [int(number) for number in _read(path)]
    for step, number in enumerate(numbers):
        if not 0 <= number < choices:
            raise ConfigError(f"--actions {path}: step {step} is {number}; the game's actions are 0 to {choices - 1}")
    return numbers


def _script(parts: Sequence[str]) -> list[tuple[str, int]]:
    return [_part(text) for text in parts]


def _part(text: str) -> tuple[str, int]:
    from ninelives.sims.emulators.movies import LONGEST_STEPS

    name, _, number = text.rpartition(":")
    if not name or not (number.isascii() and number.isdecimal()):
        raise ConfigError(f"--keys {text!r} is not ACTION:STEPS; for example: --keys right:60 right+a:5")
    digits = number.lstrip("0")
    steps = int(digits or "0") if len(digits) <= len(str(LONGEST_STEPS)) else LONGEST_STEPS + 1
    if not 1 <= steps <= LONGEST_STEPS:
        raise ConfigError(f"--keys {text[:80]!r} must be held for 1 to {LONGEST_STEPS:,} steps")
    return name, steps


def _held(runs: Sequence[tuple[int, int]]) -> Iterator[int]:
    for pad, steps in runs:
        yield from repeat(pad, steps)
