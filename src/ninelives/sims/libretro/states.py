"""Saves and loads a core's game completely, including what the core's own state omits. Knows no pictures and no steps.

mGBA before 0.10 omits the cartridge's save memory from its states, and draws no sprites after a load until the game
moves one. mGBA since 0.10 stores the host's time in them. Other cores are not trusted: their cartridge memory is kept
beside the state, even if the state contains it too.
"""

from __future__ import annotations

import ctypes

from ninelives.errors import EmulatorError
from ninelives.sims.libretro import api, mgba_state
from ninelives.sims.libretro.game import MGBA, LoadedGame

GBA_SPRITES = 0x07000000
MAY_HAVE_CLOCK = {"gba", "gb", "gbc"}


class StateSaver:
    """Saves and loads one game.

    Attributes:
        cartridge_in_state: the core's own state contains the cartridge's save memory; None: this cartridge has none.
        clock_pinned: a cartridge clock counts frames; None: the system has no such cartridges.
    """

    def __init__(self, game: LoadedGame, system: str) -> None:
        # mGBA's states list their own contents.
        state = game.save() if game.info.name == MGBA else b""
        has_cartridge = bool(game.memory(api.MEMORY_SAVE_RAM)[1])
        self._system, self._mgba_bytes = system, len(state)
        self.cartridge_in_state = mgba_state.holds_cartridge(state, system) if has_cartridge else None
        self.clock_pinned = mgba_state.clock_at(state, system) is not None if system in MAY_HAVE_CLOCK else None
        sprites = (entry.pointer for entry in game.frontend.descriptors if entry.start == GBA_SPRITES)
        self._sprites = next(sprites, None) if state and system == "gba" else None

    def save(self, game: LoadedGame) -> tuple[bytes, bytes]:
        """The core's state, and the cartridge's save memory if that state does not contain it."""
        core = self._core_state(game)
        if self.cartridge_in_state:
            return core, b""
        address, size = game.memory(api.MEMORY_SAVE_RAM)
        return core, ctypes.string_at(address, size)

    def _core_state(self, game: LoadedGame) -> bytes:
        """The core's state in its current size.

        mGBA determines that size by saving once more, which takes as long as saving. So it is given the previous size:
        it fails if that is too small, and if it is too large, the state itself says where it ends.
        """
        if not self._mgba_bytes:
            return game.save()
        state = game.try_save(self._mgba_bytes)
        state = game.save() if state is None else state[: mgba_state.end_of(state, self._system)]
        self._mgba_bytes = len(state)
        return state

    def load(self, game: LoadedGame, core: bytes, cartridge: bytes) -> None:
        """Restore what ``save`` returned; a clock that shows the host's time is pinned.

        Raises:
            EmulatorError: the core rejects the state, or the cartridge memory has another size.
        """
        before = game.save() if cartridge and len(cartridge) != game.memory(api.MEMORY_SAVE_RAM)[1] else b""
        self._load_core(game, core)
        if not cartridge:
            return
        # After the state: a core may learn the size of the cartridge's memory from it.
        address, size = game.memory(api.MEMORY_SAVE_RAM)
        if size != len(cartridge):
            if before:
                self._load_core(game, before)
            raise EmulatorError(f"the state's cartridge memory has {len(cartridge)} bytes, the game's has {size}")
        ctypes.memmove(address, cartridge, size)

    def _load_core(self, game: LoadedGame, core: bytes) -> None:
        if self.clock_pinned:
            core = mgba_state.with_pinned_clock(core, self._system)
        if self._sprites is None:
            game.load(core)
        else:
            _load_with_sprites(game, core, self._sprites)


def _load_with_sprites(game: LoadedGame, core: bytes, sprites: int) -> None:
    """Load a state of mGBA after changing a sprite, so that loading changes it again.

    Old mGBA drops its list of sprites at every load and rebuilds it only when sprite memory changes.
    """
    before = ctypes.string_at(sprites, 1)
    ctypes.memset(sprites, mgba_state.first_sprite_byte(core) ^ 0xFF, 1)
    try:
        game.load(core)
    except EmulatorError:
        ctypes.memmove(sprites, before, 1)
        raise
