"""``ninelives state save|info|convert``: creates, shows and converts state files. Native code runs in workers only."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from ninelives.cli.reporting.verdict_table import say
from ninelives.cli.target import env_spec
from ninelives.errors import CheckpointError, ConfigError, EnvRaisedError
from ninelives.spec.env import EnvSpec

if TYPE_CHECKING:
    from ninelives.sims.emulators.snapshot import Snapshot

STUDIO = "ninelives.sims.emulators.state_maker:StateMaker"


@dataclass(frozen=True)
class StateSaveCommand:
    """Save the state at which a game's episodes start, or the one that a boot script or a movie reaches.

    For example:
    $ ninelives state save ninelives/Errand-v0 --out errand.rook
    $ ninelives state save game.gba --boot noop:120 start:4 noop:60 --out start.rook
    $ ninelives state save game.gba --movie intro.movie --out start.rook
    """

    game: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="GAME|ROM")]
    """A game id such as ninelives/Errand-v0, module:factory, or a ROM file."""

    out: Path
    """File to write."""

    boot: Annotated[tuple[str, ...], tyro.conf.arg(metavar="[ACTION:FRAMES ...]")] = ()
    """Which buttons to hold from power-on, for how many frames; for a ROM."""

    movie: Path | None = None
    """Input movie to replay before saving; for a ROM."""

    core: str | None = None
    """Emulator core, by name or file; by default the best one installed. For a ROM."""

    env_kwargs: Annotated[tuple[str, ...], tyro.conf.arg(metavar="[KEY=VALUE ...]")] = ()
    """Keyword arguments of the game; values are parsed as Python literals where possible."""

    rom: Path | None = None
    """Your own ROM, for a game id that needs one."""

    overwrite: bool = False
    """Replace an existing file."""

    def run(self) -> int:
        """Save, and print what was saved."""
        from ninelives.sims.emulators.snapshot import Snapshot
        from ninelives.sims.emulators.state_files import write_snapshot

        _refuse_existing(self.out, self.overwrite)
        whole = Snapshot.from_bytes(self._taken())
        snapshot = dataclasses.replace(whole, wrapper={}, rng={})
        write_snapshot(self.out, snapshot, overwrite=self.overwrite)
        say(f"{self.out}: {_whose(snapshot)}, {self.out.stat().st_size:,} bytes")
        return 0

    def _taken(self) -> bytes:
        if not os.path.isfile(self.game):
            if self.boot or self.movie or self.core:
                raise ConfigError(f"--boot, --movie and --core need a ROM file; there is no file {self.game!r}")
            if _is_named_like_a_rom(self.game):
                raise ConfigError(f"{self.game}: no such ROM file")
            return _ask(env_spec(self.game, self.env_kwargs, self.rom), "save_state")
        if self.env_kwargs or self.rom:
            raise ConfigError(f"--env-kwargs and --rom are for game ids; {self.game!r} is a ROM file")
        if self.boot and self.movie:
            raise ConfigError("--boot and --movie exclude each other: choose one")
        if self.movie is None:
            return _ask(_state_maker(Path(self.game), self.core), "boot", tuple(map(_part, self.boot)))
        from ninelives.sims.emulators.movies import Movie

        movie = Movie.read(self.movie)
        return _ask(_state_maker(Path(self.game), self.core, movie.frame_skip), "play_movie", self.movie.read_bytes())


@dataclass(frozen=True)
class StateInfoCommand:
    """Show which game and core a state file belongs to, and check that it is intact; nothing is executed.

    For example:
    $ ninelives state info start.rook
    $ ninelives state info start.rook --rom game.gba
    """

    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """State file."""

    rom: Path | None = None
    """Check that the state belongs to this ROM."""

    def run(self) -> int:
        """Print the facts."""
        from ninelives.sims.emulators.state_files import read_snapshot

        size = len(_read(self.file))
        snapshot = read_snapshot(self.file)
        for name, value in facts(snapshot, size):
            say(f"{name:<12}{value}")
        if self.rom is not None:
            _check_rom(snapshot, self.rom)
            say(f"{'ROM':<12}{self.rom} matches")
        return 0


@dataclass(frozen=True)
class StateConvertCommand:
    """Convert a core's raw state (RetroArch's .state, mGBA's .ss0) to a state file, or a state file to a raw state.

    For example:
    $ ninelives state convert game.ss0 --rom game.gba --out start.rook
    $ ninelives state convert start.rook --out start.state
    """

    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """State to convert."""

    out: Path
    """File to write."""

    rom: Path | None = None
    """ROM file; needed for a raw state."""

    core: str | None = None
    """Core that saved the raw state; by default the best one installed."""

    overwrite: bool = False
    """Replace an existing file."""

    def run(self) -> int:
        """Convert; the file's format decides the direction."""
        from ninelives.sims.emulators.snapshot import MAGIC

        _refuse_existing(self.out, self.overwrite)
        data = _read(self.file)
        return self._to_raw() if data.startswith(MAGIC) else self._from_raw(data)

    def _to_raw(self) -> int:
        from ninelives.sims.emulators.state_files import read_snapshot, write_file

        snapshot = read_snapshot(self.file)
        if self.rom is not None:
            _check_rom(snapshot, self.rom)
        write_file(self.out, snapshot.machine.core, overwrite=self.overwrite)
        lost = "; without the cartridge memory" if snapshot.machine.cartridge else ""
        say(f"{self.out}: raw state for {snapshot.identity.core} {snapshot.identity.version}{lost}")
        return 0

    def _from_raw(self, data: bytes) -> int:
        from ninelives.sims.emulators.raw_states import core_state
        from ninelives.sims.emulators.snapshot import Snapshot
        from ninelives.sims.emulators.state_files import write_snapshot

        if self.rom is None:
            raise ConfigError(f"{self.file} is a raw state, which does not name its game: pass the ROM with --rom")
        try:
            raw = core_state(data)
        except CheckpointError as error:
            raise CheckpointError(f"{self.file}: {error}") from error
        snapshot = Snapshot.from_bytes(_ask(_state_maker(self.rom, self.core), "adopt", raw))
        write_snapshot(self.out, snapshot, overwrite=self.overwrite)
        say(f"{self.out}: {_whose(snapshot)}; one frame after the raw state, which has no picture")
        return 0


@dataclass(frozen=True)
class StateCommand:
    """Save, show and convert states of emulated games.

    For example:
    $ ninelives state save ninelives/Errand-v0 --out errand.rook
    $ ninelives state info errand.rook
    $ ninelives state convert game.ss0 --rom game.gba --out start.rook
    """

    verb: Annotated[
        Annotated[StateSaveCommand, tyro.conf.subcommand("save")]
        | Annotated[StateInfoCommand, tyro.conf.subcommand("info")]
        | Annotated[StateConvertCommand, tyro.conf.subcommand("convert")],
        tyro.conf.arg(name=""),
    ]

    def run(self) -> int:
        """Run the sub-command."""
        return self.verb.run()


def facts(snapshot: Snapshot, file_bytes: int) -> Iterator[tuple[str, str]]:
    """The contents of a state file, one fact per line."""
    identity, machine = snapshot.identity, snapshot.machine
    yield "system", identity.system
    yield "core", f"{identity.core} {identity.version} ({identity.backend})"
    yield "ROM SHA-256", identity.rom_sha256
    yield "picture", f"{machine.shape[1]} x {machine.shape[0]}, {machine.layout}"
    yield "cartridge", f"{len(machine.cartridge):,} bytes" if machine.cartridge else "in the core's state, or none"
    yield "state", f"{len(machine.core):,} bytes of the core, {file_bytes:,} in the file"
    yield "environment", "included" if snapshot.wrapper else "none: a start state for episodes"
    yield "checksum", "ok"


def _whose(snapshot: Snapshot) -> str:
    identity = snapshot.identity
    return f"{identity.system} state of {identity.core} {identity.version}, ROM {identity.rom_sha256[:16]}..."


def _state_maker(rom: Path, core: str | None, frame_skip: int = 1) -> EnvSpec:
    if not os.path.isfile(rom):
        raise ConfigError(f"--rom {rom}: no such file, or no permission to read it")
    return EnvSpec(STUDIO, {"rom": str(rom.resolve()), "core": core, "frame_skip": frame_skip})


def _ask(spec: EnvSpec, method: str, *args: Any) -> bytes:
    """Call a method of the environment in a worker, after a reset."""
    from ninelives.pool.pool import Pool

    with Pool(spec, 1, start_attempts=1) as pool:
        pool.reset(seed=0)
        try:
            (answer,) = pool.call(method, *args)
        except EnvRaisedError as error:
            if "AttributeError" not in error.fault.summary:
                raise
            answer = None  # the environment has no such method
    if not isinstance(answer, bytes):
        raise ConfigError(f"{spec.label} is not an emulated game of Ninelives: its {method}() returns no state")
    return answer


def _is_named_like_a_rom(name: str) -> bool:
    from ninelives.sims.emulators.systems import SYSTEMS

    return any(Path(name).suffix.lower() in system.suffixes for system in SYSTEMS.values())


def _part(text: str) -> tuple[str, int]:
    from ninelives.sims.emulators.actions import pad_named

    name, _, frames = text.rpartition(":")
    if not name or not frames.isdecimal() or not int(frames):
        raise ConfigError(f"--boot {text!r} is not ACTION:FRAMES; for example: --boot noop:60 start:4")
    pad_named(name, key="--boot")
    return name, int(frames)


def _check_rom(snapshot: Snapshot, rom: Path) -> None:
    digest = hashlib.sha256(_read(rom)).hexdigest()
    if digest != snapshot.identity.rom_sha256:
        theirs = snapshot.identity.rom_sha256[:16]
        raise CheckpointError(f"the state belongs to another ROM: SHA-256 {theirs}..., {rom} has {digest[:16]}...")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error


def _refuse_existing(path: Path, overwrite: bool) -> None:
    if os.path.exists(path) and not overwrite:
        raise ConfigError(f"--out {path} exists already; choose another name, or --overwrite")
