"""What the games that come with the package have in common: goals, three kinds of observation, an included ROM."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ninelives.errors import ConfigError
from ninelives.sims.emulators.env import EmulatorEnv
from ninelives.sims.emulators.screen import Screen
from ninelives.sims.games.registry import game, rom_of

OBSERVE = ("screen", "ram", "both")


def check_choices(goal: str, goals: Iterable[str], observe: str) -> None:
    """Reject an unknown goal or kind of observation.

    Raises:
        ConfigError: with the allowed ones.
    """
    known = tuple(goals)
    if goal not in known:
        raise ConfigError(f"goal={goal!r} is not known; allowed: {', '.join(known)}")
    if observe not in OBSERVE:
        raise ConfigError(f"observe={observe!r} is not known; allowed: {', '.join(OBSERVE)}")


def embedded(
    name: str, *, observe: str, observed: Sequence[str], screen: Screen | None, **settings: Any
) -> EmulatorEnv:
    """An environment of an included game; ``observed`` are the memory fields that ``observe="ram"`` means."""
    return EmulatorEnv(
        rom_of(name),
        system=game(name).system,
        screen=None if observe == "ram" else screen or Screen(),
        observe=() if observe == "screen" else observed,
        **settings,
    )
