"""``ninelives games``: lists the registered games and their requirements. Loads neither a game nor a core."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ninelives.cli.reporting.verdict_table import say
from ninelives.errors import EmulatorError

if TYPE_CHECKING:
    from ninelives.sims.games.registry import Game

HEADINGS = ("game", "title", "system", "ROM", "emulator")


@dataclass(frozen=True)
class GamesCommand:
    """List the games that Ninelives supports, and what each one needs.

    For example:
    $ ninelives games
    """

    def run(self) -> int:
        """Print a table, and what to install if something is missing."""
        from ninelives.sims.games.registry import GAMES

        lacks: dict[str, str] = {}
        lines = [HEADINGS, *rows(GAMES, lacks)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
        for line, about in zip(lines, ["", *map(_about, GAMES)], strict=True):
            say("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
            say(f"    {about}" if about else "")
        for system, words in lacks.items():
            say(f"{system}: {words}", "[yellow]missing[/]")
        say("")
        say("Play one with `ninelives play GAME`; in Python, ninelives.Pool('GAME', num_envs=8), or a single copy:")
        say("gymnasium.make('ninelives.sims.games:GAME').")
        return 0


def rows(games: tuple[Game, ...], lacks: dict[str, str]) -> Iterator[tuple[str, ...]]:
    """One row per game; what is missing is collected by system in ``lacks``."""
    from ninelives.sims.emulators.backends import best_core

    for game in games:
        try:
            core = best_core(game.system)
        except EmulatorError as error:
            core = "missing"
            lacks[game.system] = str(error)
        rom = "your own: rom=FILE" if game.needs_rom else "included"
        yield game.id, game.title, game.system, rom, core


def _about(game: Game) -> str:
    return game.about + (f"; needs {game.wants}" if game.wants else "")
