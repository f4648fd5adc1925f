"""The libretro backend: a ``Machine`` (``ninelives.sims.emulators.machine``) on any libretro core.

Owns what libretro leaves to its frontend: which frames are drawn, and the picture that belongs to a state. A core's
files are in a directory of this instance.
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
"""Options that differ from the core's default: a BIOS file that happens to exist would change the game."""


@dataclass(frozen=True)
class Abilities:
    """What a core can do with the loaded game.

    Attributes:
        skips_drawing: frames between two pictures need not be drawn.
        cartridge_in_state: the core's own state contains the cartridge's save memory; None: this cartridge has none.
        clock_pinned: a cartridge clock counts frames; False: it would show the host's time; None: the system has no
            such cartridges.
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
        file_name: the ROM's file name, for the core and for messages.
        frame_skip: frames per step.
        scratch: directory in which this instance creates its own; None: the system's temporary directory.
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
        # Cores use buttons that the system does not have for their own functions, like turbo fire.
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
        """Run one frame and undo it, so that every game starts the same way.

        Afterwards the clock is pinned, the counter of undrawn frames has the value that steps need, and the picture is
        defined: mGBA starts its first one half way down, over uninitialised memory.
        """
        if self.abilities.skips_drawing:
            self._set_skip(game, self.frame_skip - 1)
        self._run_and_undo(game, 1)
        paint(game, 0)

    # ---- running --------------------------------------------------------------------------------------------------

    def step(self, pad: int) -> None:
        """Run ``frame_skip`` frames with ``pad`` held; only the last is drawn if the core can skip drawing."""
        game = self._open_game()
        game.frontend.frames.pad = pad & self._pad_bits
        self._loaded = None
        game.run(self.frame_skip)

    def advance(self, frames: int, pad: int) -> None:
        """Run any number of frames with ``pad`` held; the last one is drawn."""
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
            self._run_and_undo(game, wasted)
        for leg in frame_skip.frame_runs(counter - wasted, frames, self.frame_skip):
            self._set_skip(game, leg.skip)
            game.run(leg.frames)
        return None

    def _run_and_undo(self, game: LoadedGame, frames: int) -> None:
        """Run frames and restore the state: only the counter advances, because it is not part of a state."""
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
        """The last frame drawn, or the picture of the state that was loaded; black before the first."""
        game = self._open_game()
        if self._loaded is not None:
            return self._loaded
        moves = game.frontend.frames.moves
        if self._drawn is None or self._drawn[0] != moves:
            self._drawn = moves, picture_of(game)
        return self._drawn[1]

    # ---- states ---------------------------------------------------------------------------------------------------

    def save(self) -> MachineState:
        """The complete state. Saving does not change the machine."""
        game = self._open_game()
        core, cartridge = self._states.save(game)
        picture = self.picture()
        pixels = picture.pixels.tobytes()
        return MachineState(core, cartridge, pixels, picture.pixels.shape, picture.layout, 0, game.frontend.frames.pad)

    def load(self, state: MachineState) -> None:
        """Restore a state exactly; EmulatorError if the core rejects it."""
        game = self._open_game()
        picture = picture_in(state)
        self._states.load(game, state.core, state.cartridge)
        if game.info.name == MGBA:
            paint(game, picture.pixels)
        game.frontend.frames.pad = state.pad & self._pad_bits
        self._loaded = picture

    # ---- the end --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Release the game and delete its files; the game is unloaded when the last view of it is gone."""
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
        raise EmulatorError(f"cannot create a directory for an emulator in {where}: {error.strerror}") from None


def _remove(directory: str, owner: int) -> None:
    """Delete the directory, but only in the process that created it: a forked process inherits the finalizer."""
    if os.getpid() == owner:
        shutil.rmtree(directory, ignore_errors=True)
