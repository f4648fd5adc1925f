"""The libretro backend: one machine with one game in it, as ``ninelives.sims.emulators.machine`` describes.

Owns what libretro leaves to its host: which frames are drawn, and the picture that belongs to a state. Files of a core
are in a directory of this instance alone.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path

from ninelives.errors import ClosedError, EmulatorError
from ninelives.sims.emulators.machine import Identity, MachineState, Memory, Picture, pad_of
from ninelives.sims.emulators.systems import buttons_of
from ninelives.sims.libretro import frame_skip
from ninelives.sims.libretro.game import MGBA, LoadedGame
from ninelives.sims.libretro.memory import GBA_CARTRIDGE_SAVE, BusMemory
from ninelives.sims.libretro.picture import paint, picture_in, picture_of
from ninelives.sims.libretro.states import StateSaver

SKIP_OPTION = b"mgba_frameskip"
FIXED = {b"mgba_use_bios": b"OFF"}
"""Options that are not left at the core's default: a BIOS file that happens to be there would change the game."""


@dataclass(frozen=True)
class Abilities:
    """What a core can do with the game that is in it.

    Attributes:
        skips_drawing: frames between two pictures need not be drawn.
        cartridge_in_state: the core's own state holds the cartridge's save memory; None: this cartridge has none.
        clock_pinned: a clock in the cartridge counts frames; False: it would show the host's time; None: the machine
            knows no such cartridges.
    """

    skips_drawing: bool
    cartridge_in_state: bool | None
    clock_pinned: bool | None


class LibretroEmulator:
    """A game on a libretro core.

    Args:
        rom: the ROM's bytes.
        core: the core's file.
        system: ``gba``, ``nes``, ...
        file_name: what the ROM is called, for the core and for messages.
        frame_skip: frames of a step.
        scratch: directory in which this instance makes its own; None: the system's for temporary files.
    """

    def __init__(
        self, rom: bytes, core: Path, *, system: str, file_name: str, frame_skip: int = 1, scratch: Path | None = None
    ) -> None:
        directory = _own_directory(scratch)
        self._remove_files = weakref.finalize(self, _remove, directory, os.getpid())
        try:
            game = LoadedGame(core, rom, file_name, Path(directory), FIXED)
        except BaseException:
            self._remove_files()
            raise
        self._game: LoadedGame | None = game
        self.identity = Identity("libretro", game.info.name, game.info.version, system, hashlib.sha256(rom).hexdigest())
        self.buttons = buttons_of(system)
        # Cores use buttons that the machine does not have for functions of their own, like turbo fire.
        self._pad_bits = pad_of(*self.buttons)
        self.frame_skip = frame_skip
        self.frames_per_s = game.timing.frames_per_s
        self._skip = b""
        self._loaded: Picture | None = None
        self._drawn: tuple[int, Picture] | None = None
        self._states = StateSaver(game, system)
        self.abilities = Abilities(
            skips_drawing=system == "gba" and game.frontend.variables.get(SKIP_OPTION) == b"0",
            cartridge_in_state=self._states.cartridge_in_state,
            clock_pinned=self._states.clock_pinned,
        )
        if game.info.name == MGBA:
            self._settle(game)
        hidden = (GBA_CARTRIDGE_SAVE,) if self.abilities.cartridge_in_state else ()
        self._bus = BusMemory(game, system, hidden)
        self.memory: Memory = self._bus

    def _settle(self, game: LoadedGame) -> None:
        """Run one frame that never happened, so that every game starts alike.

        Afterwards the clock is pinned, the counter of undrawn frames is where steps want it, and the picture is known:
        mGBA begins its first one half way down, over whatever was there.
        """
        if self.abilities.skips_drawing:
            self._set_skip(game, self.frame_skip - 1)
        self._run_in_vain(game, 1)
        paint(game, 0)

    # ---- running --------------------------------------------------------------------------------------------------

    def step(self, pad: int) -> None:
        """Run ``frame_skip`` frames with ``pad`` held; only the last is drawn where the core can leave drawing out."""
        game = self._open_game()
        game.frontend.frames.pad = pad & self._pad_bits
        self._loaded = None
        game.run(self.frame_skip)

    def advance(self, frames: int, pad: int) -> None:
        """Run any number of frames with ``pad`` held; the last is drawn, and steps go on from there."""
        game = self._open_game()
        if frames < 1:
            raise EmulatorError(f"advance(frames={frames}): at least one frame must be run")
        game.frontend.frames.pad = pad & self._pad_bits
        self._loaded = None
        if not self.abilities.skips_drawing:
            return game.run(frames)
        counter = self.frame_skip - 1
        wasted = frame_skip.discarded_frames(counter, frames)
        if wasted:
            self._run_in_vain(game, wasted)
        for leg in frame_skip.frame_runs(counter - wasted, frames, self.frame_skip):
            self._set_skip(game, leg.skip)
            game.run(leg.frames)
        return None

    def _run_in_vain(self, game: LoadedGame, frames: int) -> None:
        """Run frames that never happened: a state does not hold the counter, so that it alone goes on."""
        core, cartridge = self._states.save(game)
        game.run(frames)
        self._states.load(game, core, cartridge)

    def _set_skip(self, game: LoadedGame, skip: int) -> None:
        value = b"%d" % skip
        if value != self._skip:
            game.frontend.set(SKIP_OPTION, value)
            self._skip = value

    # ---- the picture ----------------------------------------------------------------------------------------------

    def picture(self) -> Picture:
        """The last frame drawn, or loaded with a state; black before the first."""
        game = self._open_game()
        if self._loaded is not None:
            return self._loaded
        moves = game.frontend.frames.moves
        if self._drawn is None or self._drawn[0] != moves:
            self._drawn = moves, picture_of(game)
        return self._drawn[1]

    # ---- states ---------------------------------------------------------------------------------------------------

    def save(self) -> MachineState:
        """Everything, and nothing is changed by asking."""
        game = self._open_game()
        core, cartridge = self._states.save(game)
        picture = self.picture()
        pixels = picture.pixels.tobytes()
        return MachineState(core, cartridge, pixels, picture.pixels.shape, picture.layout, 0, game.frontend.frames.pad)

    def load(self, state: MachineState) -> None:
        """Be exactly there; EmulatorError if the core refuses."""
        game = self._open_game()
        picture = picture_in(state)
        self._states.load(game, state.core, state.cartridge)
        if game.info.name == MGBA:
            paint(game, picture.pixels)
        game.frontend.frames.pad = state.pad & self._pad_bits
        self._loaded = picture

    # ---- the end --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of the game and remove its files; the game is unloaded when the last view of it is gone."""
        self._game = self._loaded = self._drawn = None
        self._bus.close()
        self._remove_files()

    def _open_game(self) -> LoadedGame:
        if self._game is None:
            raise ClosedError("this emulator is closed; open another one")
        return self._game


def _own_directory(scratch: Path | None) -> str:
    try:
        return tempfile.mkdtemp(prefix="ninelives-emulator-", dir=scratch)
    except OSError as error:
        where = scratch or tempfile.gettempdir()
        raise EmulatorError(f"no directory for an emulator can be made in {where}: {error.strerror}") from None


def _remove(directory: str, owner: int) -> None:
    """Only by who made it: a process that was forked has inherited the order, and the other one still plays."""
    if os.getpid() == owner:
        shutil.rmtree(directory, ignore_errors=True)
