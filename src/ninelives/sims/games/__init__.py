"""Games: those that come with the package, and those that need the user's own ROM.

Importing this registers them with Gymnasium as ``ninelives/...`` and loads neither an emulator nor a game.
"""

from ninelives.sims.games.registry import GAMES, Game, game, register, rom_of

__all__ = ["GAMES", "Game", "game", "register", "rom_of"]

register()
