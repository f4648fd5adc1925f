"""The registered games, what each needs, and their Gymnasium ids. Loads no emulator and no game.

A game is registered by the name of its factory, which is imported only when an environment is created.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ninelives.errors import ConfigError

DATA = Path(__file__).parent / "data"
"""The directory of the ROMs that come with the package."""


@dataclass(frozen=True)
class Game:
    """One registered game.

    Attributes:
        id: its Gymnasium id.
        title: its title.
        system: ``gba`` or ``nes``.
        factory: ``module:function`` that returns the environment.
        about: a description in one line.
        rom: file name of the ROM in the package; None: the user gives one with ``rom=``.
        kwargs: keyword arguments of the factory for this id.
        wants: a description of what else the user must have.
    """

    id: str
    title: str
    system: str
    factory: str
    about: str
    rom: str | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    wants: str = ""

    @property
    def needs_rom(self) -> bool:
        """Whether the user must give a ROM."""
        return self.rom is None


_ERRAND = "bring a ring, a spoon and a crown home before night: five maps, a locked door, foxes, cats and owls"
_LANTERN = "carry the light over pits and past moths to the lighthouse, three nights long"

GAMES: tuple[Game, ...] = (
    Game("ninelives/Errand-v0", "Rook's Errand", "gba", "ninelives.sims.games.errand:make", _ERRAND, "errand.gba"),
    Game(
        "ninelives/Errand-ram-v0",
        "Rook's Errand",
        "gba",
        "ninelives.sims.games.errand:make",
        "the same, and what memory holds is observed instead of the picture",
        "errand.gba",
        {"observe": "ram"},
    ),
    Game("ninelives/Lantern-v0", "Lantern", "nes", "ninelives.sims.games.lantern:make", _LANTERN, "lantern.nes"),
    Game(
        "ninelives/Lantern-ram-v0",
        "Lantern",
        "nes",
        "ninelives.sims.games.lantern:make",
        "the same, and what memory holds is observed instead of the picture",
        "lantern.nes",
        {"observe": "ram"},
    ),
    Game(
        "ninelives/Emerald-v0",
        "Pokemon Emerald",
        "gba",
        "ninelives.sims.games.emerald:make",
        "explore, win badges, level up: rewards for progress; start from your own save state",
        wants="your own ROM (USA, SHA-1 f3ae0881...), and a state to start from: ninelives play makes it",
    ),
    Game(
        "ninelives/Mario-v0",
        "Super Mario Bros.",
        "nes",
        "ninelives.sims.games.mario:make",
        "run to the flag: rewards for the way, costs for standing still and dying",
        wants="your own ROM (World, SHA-1 without header facee9c5...)",
    ),
)


def game(name: str) -> Game:
    """The game with this id.

    Raises:
        ConfigError: there is no such game; the message lists all of them.
    """
    for one in GAMES:
        if one.id == name:
            return one
    raise ConfigError(f"there is no game {name!r}; there are {', '.join(one.id for one in GAMES)}")


def rom_of(name: str) -> Path:
    """The file of a ROM that comes with the package.

    Raises:
        ConfigError: the game needs the user's own ROM.
    """
    one = game(name)
    if one.rom is None:
        raise ConfigError(f"{one.id} needs your own ROM: give its file as rom=")
    return DATA / one.rom


def register() -> None:
    """Register every game with Gymnasium. Idempotent."""
    import gymnasium

    for one in GAMES:
        if one.id not in gymnasium.registry:
            gymnasium.register(one.id, one.factory, kwargs=dict(one.kwargs), order_enforce=True)
