"""``rookery record GAME``: writes an input movie, from chance, from a script, from a file or from another movie."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from rookery.cli.sheet import say
from rookery.cli.target import env_spec
from rookery.errors import ConfigError

if TYPE_CHECKING:
    import numpy.typing as npt

    from rookery.cli.gameslot import GameFile, GameSlot

RANDOM = "random"
FRAME_SKIP = 4
"""Of a mere ROM, which has no environment to say it."""


@dataclass(frozen=True)
class Beginning:
    """Where a movie begins and what may be held: of the game's environment, or of a mere ROM."""

    start: bytes | None
    actions: tuple[str, ...]
    frame_skip: int


@dataclass(frozen=True)
class Record:
    """Record an input movie: where a game began, what was held at every step, and a hash of what came of it.

    For example:
    $ rookery record rookery/Errand-v0 --out walk.movie --steps 300
    $ rookery record rookery/Errand-v0 --out way.movie --keys right:20 down:3 a:1 noop:30
    $ rookery record game.gba --out demo.movie --state start.rook --actions actions.npy
    """

    game: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="GAME|ROM")]
    """A game's id like rookery/Errand-v0, or a ROM's file."""

    out: Path
    """The movie to write."""

    rom: Path | None = None
    """Your own ROM, for games that need one."""

    state: Path | None = None
    """Where to begin; by default where the game's episodes begin, or a ROM at power-on."""

    actions: Annotated[str, tyro.conf.arg(metavar="random|FILE")] = RANDOM
    """Random actions, or a .npy file with the numbers of the game's actions, as a run's journal may give them."""

    keys: Annotated[tuple[str, ...], tyro.conf.arg(metavar="[ACTION:STEPS ...]")] = ()
    """What to hold and for how many steps, instead of actions."""

    inputs_of: Path | None = None
    """Another movie whose inputs are played again: a movie for another version of an emulator."""

    steps: int = 1000
    """How many random steps."""

    seed: int = 0
    """Of the random actions, and of the game's environment."""

    frame_skip: int | None = None
    """Frames of a step; by default what the game's environment has, or 4."""

    core: str | None = None
    """The emulator's core by name or file; by default the best that is found."""

    env_kwargs: Annotated[tuple[str, ...], tyro.conf.arg(metavar="[KEY=VALUE ...]")] = ()
    """Keyword arguments of the game's environment."""

    def run(self) -> int:
        """Record and say what was recorded."""
        from rookery.cli.gameslot import GameSlot, find_game
        from rookery.sims.movies import Recorder

        self._refuse()
        game = find_game(self.game, self.rom)
        begin = self._beginning(game)
        with GameSlot(game, core=self.core, start=begin.start, frame_skip=begin.frame_skip, hashed=True) as slot:
            recorder = Recorder(slot.identity, slot.frame_skip, game.name, slot.start)
            for pad in self._pads(slot, begin):
                recorder.note(pad, slot.step(pad))
        movie = recorder.movie()
        movie.write(self.out)
        size = self.out.stat().st_size
        say(f"{self.out}: {movie.steps:,} steps of {movie.frame_skip} frames, {size:,} bytes")
        return 0

    def _refuse(self) -> None:
        """What can be seen to be wrong before a worker is started."""
        from rookery.sims.actions import pad_named

        chosen = [self.actions != RANDOM, bool(self.keys), self.inputs_of is not None]
        if sum(chosen) > 1:
            raise ConfigError("--actions, --keys and --inputs-of: give one of them")
        if self.steps < 1:
            raise ConfigError(f"--steps {self.steps} must be at least 1")
        if self.out.exists():
            raise ConfigError(f"--out {self.out}: is there already; give another name")
        for name in dict.fromkeys(_script(self.keys)):
            pad_named(name)
        if self.actions != RANDOM:
            _read(Path(self.actions))

    def _beginning(self, game: GameFile) -> Beginning:
        from rookery.sims.actions import DIRECTIONS
        from rookery.sims.state_files import read_snapshot

        if game.id is not None:
            return self._beginning_of(game, game.id)
        if self.env_kwargs:
            raise ConfigError(f"--env-kwargs are for games with an environment, and {self.game!r} is a mere ROM")
        start = None
        if self.state is not None:
            start = dataclasses.replace(read_snapshot(self.state), wrapper={}, rng={}).to_bytes(compress=True)
        return Beginning(start, DIRECTIONS, self.frame_skip or FRAME_SKIP)

    def _beginning_of(self, game: GameFile, name: str) -> Beginning:
        """What the game's own environment says after a reset, in a worker."""
        from rookery.pool.pool import Pool
        from rookery.sims.snapshot import Snapshot

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
        return Beginning(start, tuple(settings["actions"]), settings["frame_skip"])

    def _pads(self, slot: GameSlot, begin: Beginning) -> Iterator[int]:
        from rookery.sims.actions import pad_named
        from rookery.sims.movies import Movie

        if self.inputs_of is not None:
            return iter(Movie.read(self.inputs_of).pads)
        if self.keys:
            return (pad_named(name, slot.buttons) for name in _script(self.keys))
        pads = [pad_named(name, slot.buttons) for name in begin.actions]
        if self.actions == RANDOM:
            return islice((pads[number] for number in _drawn(len(pads), self.seed)), self.steps)
        return (pads[number] for number in _chosen(Path(self.actions), len(pads)))


def _drawn(choices: int, seed: int) -> Iterator[int]:
    import numpy as np

    rng = np.random.default_rng(seed)
    while True:
        yield int(rng.integers(choices))


def _read(path: Path) -> npt.NDArray[Any]:
    import numpy as np

    try:
        numbers = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ConfigError(f"--actions {path}: no .npy file of numbers: {error}") from None
    if not isinstance(numbers, np.ndarray) or numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise ConfigError(f"--actions {path}: must be one row of whole numbers, one a step")
    return numbers


def _chosen(path: Path, choices: int) -> list[int]:
    numbers = [int(number) for number in _read(path)]
    for step, number in enumerate(numbers):
        if not 0 <= number < choices:
            raise ConfigError(f"--actions {path}: step {step} is {number}; the game's actions are 0 to {choices - 1}")
    return numbers


def _script(parts: Sequence[str]) -> Iterator[str]:
    for part in parts:
        name, _, steps = part.rpartition(":")
        if not name or not steps.isdigit():
            raise ConfigError(f"--keys {part!r} is not ACTION:STEPS; for example: --keys right:60 right+a:5")
        yield from [name] * int(steps)
