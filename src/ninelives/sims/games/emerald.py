"""Pokemon Emerald, with the user's own ROM: observation, rewards, and the end of an episode.

``ninelives/Emerald-v0``. Nothing of the game is included: the ROM is given by ``rom=``, its checksum is compared with
the retail build's, and ``state=`` is the state that episodes start from (``ninelives play`` makes such files).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ninelives.sims.emulators.env import EmulatorEnv, check_own
from ninelives.sims.emulators.memory_map import Ram
from ninelives.sims.emulators.rewards import Term, explored, flag, progress, weighted
from ninelives.sims.emulators.screen import AnyScreen, Screen
from ninelives.sims.games.emerald_memory import FLAG_BYTES, MEMORY, LastGood
from ninelives.sims.games.revisions import Edition, checked_rom

EDITION = Edition(
    title="Pokemon Emerald",
    system="gba",
    expected="USA, the retail build",
    sha1="f3ae088181bf583e55daf962a92bb46f4f1d07b7",
    others={},
    id="ninelives/Emerald-v0",
)

ACTIONS = ("a", "b", "up", "down", "left", "right", "start")

WEIGHTS: Mapping[str, float] = {
    "places": 0.02,
    "maps": 0.5,
    "levels": 0.5,
    "badges": 5.0,
    "events": 0.3,
    "trainers": 1.0,
    "healing": 1.0,
    "champion": 50.0,
}
"""Value of each: a place or a map that is new in this episode, a level, a badge, an event that happens for the first
time, a beaten trainer, a whole party healed, the end of the game. So a level is worth 25 new places, and a badge
250."""

OWN = ("system", "memory", "rewards", "ends")
"""Settings of ``EmulatorEnv`` that the game sets itself."""

INFO = ("map_group", "map_number", "x", "y", "badge_count", "party_count", "level_sum", "money", "in_battle", "settled")


def make(
    rom: str | Path | None = None,
    *,
    state: str | Path | Sequence[str | Path] | None = None,
    weights: Mapping[str, float] | None = None,
    observe: Sequence[str] = (),
    max_steps: int | None = 20_000,
    frame_skip: int = 12,
    screen: AnyScreen = Screen(stack=3),  # noqa: B008  (it is frozen)
    any_revision: bool = False,
    core: str | None = None,
    **settings: Any,
) -> EmulatorEnv:
    """The game as an environment.

    Args:
        rom: your own ROM.
        state: state files that episodes start from, one or several. Without it they start at power-on, before the
            title.
        weights: other weights for some of the terms in ``WEIGHTS``; 0 omits a term.
        observe: fields to observe in addition to the screen, like ``walls`` or ``party_hp``.
        max_steps: length limit of an episode.
        frame_skip: frames per step; walking one tile takes 16.
        screen: how the picture is observed.
        any_revision: accept another revision of the game with a warning.
        core: the emulator.
        settings: other settings of ``EmulatorEnv``, except those in ``OWN``.

    Raises:
        ConfigError: no ROM, another revision, or an invalid setting.
    """
    check_own(EDITION.id, settings, OWN)
    return EmulatorEnv(
        checked_rom(rom, EDITION, any_revision=any_revision),
        core=core,
        system="gba",
        state=state,
        frame_skip=frame_skip,
        screen=screen,
        max_steps=max_steps,
        **{"actions": ACTIONS, "info": INFO, **settings},
        memory=MEMORY,
        observe=observe,
        rewards=rewards(weights),
        ends=[Known(flag("champion"))],
    )


def rewards(weights: Mapping[str, float] | None = None) -> list[Term]:
    """The terms with their weights; terms of weight 0 are omitted.

    Raises:
        ConfigError: a weight for an unknown term.
    """
    terms: Mapping[str, Term] = {
        "places": explored("map_group", "map_number", "x", "y"),
        "maps": explored("map_group", "map_number"),
        "levels": progress("level_sum"),
        "badges": progress("badge_count"),
        "events": NewEvents(),
        "trainers": progress("trainers"),
        "healing": HealedParty(),
        "champion": flag("champion"),
    }
    known: Mapping[str, Term] = {name: Known(term) for name, term in terms.items()}
    return [LastGood(), *weighted(known, WEIGHTS, weights)]


class Known(Term):
    """Another term, evaluated once all memory is known; zero until then."""

    def __init__(self, term: Term) -> None:
        super().__init__(term.name, [*term.fields, "known"])
        self._term = term

    def __call__(self, before: Ram, after: Ram) -> float:
        """The term's value if all memory was known before the step."""
        return float(self._term(before, after)) if before["known"] else 0.0

    def check(self, ram: Ram) -> None:
        """Check the term's fields."""
        self._term.check(ram)

    def reset(self) -> None:
        """Start an episode."""
        self._term.reset()

    def save(self) -> Any:
        """The term's memory."""
        return self._term.save()

    def load(self, saved: Any) -> None:
        """Restore the term's memory."""
        self._term.load(saved)


class NewEvents(Term):
    """Number of event flags set for the first time in this episode. Flags that come and go count once."""

    def __init__(self) -> None:
        super().__init__("events", ["happened"])
        self._seen: npt.NDArray[np.uint8] | None = None

    def __call__(self, before: Ram, after: Ram) -> float:
        """The number of new flags."""
        if self._seen is not None and after["happened"] is before["happened"]:
            return 0
        seen = _without_trainers(before["happened"]) if self._seen is None else self._seen
        now = _without_trainers(after["happened"])
        self._seen = seen | now
        return int(np.bitwise_count(now & ~seen).sum())

    def reset(self) -> None:
        """Forget the flags."""
        self._seen = None

    def save(self) -> bytes:
        """The flags seen so far."""
        return b"" if self._seen is None else self._seen.tobytes()

    def load(self, saved: bytes) -> None:
        """Restore the flags."""
        self._seen = np.frombuffer(saved, np.uint8) if len(saved) == FLAG_BYTES else None


class HealedParty(Term):
    """The share of the party's health restored outside battle, if the party is the same. A blackout earns nothing."""

    def __init__(self) -> None:
        super().__init__("healing", ["party_hp", "party_max_hp", "party_count", "in_battle"])

    def __call__(self, before: Ram, after: Ram) -> float:
        """From 0 to 1."""
        if before["in_battle"] or after["in_battle"] or before["party_count"] != after["party_count"]:
            return 0.0
        was, now = int(before["party_hp"].sum()), int(after["party_hp"].sum())
        if was == 0 or not np.array_equal(before["party_max_hp"], after["party_max_hp"]):
            return 0.0
        return max(now - was, 0) / max(int(after["party_max_hp"].sum()), 1)


def _without_trainers(flags: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Event flags without beaten trainers, which have their own reward."""
    kept = flags.copy()
    kept[0x500 // 8 : 0x860 // 8] = 0
    return kept
