"""Games: those that come with the package, and those that need the user's own ROM.

``import ninelives`` registers them with Gymnasium as ``ninelives/...``. Loads neither an emulator nor a game.
"""

from ninelives.sims.games.registry import GAMES, Game, game, register, rom_of

__all__ = ["GAMES", "Game", "game", "register", "rom_of"]
