"""Games: our own, which come with the package, and those people bring their own ROM for.

Importing this registers them with Gymnasium as ``ninelives/...`` and loads neither an emulator nor a game.
"""

from ninelives.sims.games.registry import GAMES, Game, game, register, rom_of

__all__ = ["GAMES", "Game", "game", "register", "rom_of"]

register()
