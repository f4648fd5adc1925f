"""``rookery games``: which games are registered and what each needs here. Loads neither a game nor a core."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rookery.cli.sheet import say
from rookery.errors import EmulatorError

if TYPE_CHECKING:
    from rookery.sims.games.registry import Game

HEADINGS = ("game", "system", "ROM", "emulator", "about")


@dataclass(frozen=True)
class Games:
    """List the games that come with Rookery or are known to it, and what each needs.

    For example:
    $ rookery games
    """

    def run(self) -> int:
        """Print a table, and what to install where something is missing."""
        from rookery.sims.games.registry import GAMES

        lacks: dict[str, str] = {}
        lines = [HEADINGS, *rows(GAMES, lacks)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
        for line in lines:
            say("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
        for system, words in lacks.items():
            say(f"{system}: {words}", "[yellow]missing[/]")
        say("\nPlay one with `rookery play GAME`; in Python, rookery.Pool('GAME', num_envs=8).")
        return 0


def rows(games: tuple[Game, ...], lacks: dict[str, str]) -> Iterator[tuple[str, ...]]:
    """A line of the table for every game; what is missing is noted by system."""
    from rookery.sims.backends import best_core

    for game in games:
        try:
            core = best_core(game.system)
        except EmulatorError as error:
            core = "missing"
            lacks[game.system] = str(error)
        rom = "your own: rom=FILE" if game.needs_rom else "comes with it"
        about = f"{game.title}: {game.about}" + (f" ({game.wants})" if game.wants else "")
        yield game.id, game.system, rom, core, about
