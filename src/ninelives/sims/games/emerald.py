"""Pokemon Emerald, with the user's own ROM: what is observed, what is rewarded, when an episode ends.

``ninelives/Emerald-v0``. Nothing of the game is shipped: the ROM is given by ``rom=``, its checksum is compared to the
retail build's, and ``state=`` is where episodes begin (``ninelives play`` makes such files).
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
"""What one of each is worth: a place or a map that the episode has not seen yet, a level, a badge, an event that
happens for the first time, a beaten trainer, a whole party healed, the end of the game. A level is thus worth 25 paces
where nobody has been, and a badge 250."""

OWN = ("system", "memory", "rewards", "ends")
"""Settings of an environment that the game decides."""

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
        state: where episodes begin; a file, or several. Without it they begin at power-on, before the title.
        weights: other weights for some of the terms in ``WEIGHTS``; 0 leaves a term out.
        observe: fields to observe beside the screen, like ``walls`` or ``party_hp``.
        max_steps: an episode's length.
        frame_skip: frames of a step; a pace takes 16.
        screen: what of the picture is observed.
        any_revision: accept another revision of the game with a warning.
        core: the emulator.
        settings: anything else that ``EmulatorEnv`` takes, but not what is in ``OWN``.

    Raises:
        ConfigError: no ROM, another revision, or a setting that makes no sense.
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
    """The terms with their weights; those of weight 0 are left out.

    Raises:
        ConfigError: a weight for something that is no term.
    """
    terms: Mapping[str, Term] = {
        "places": explored("map_group", "map_number", "x", "y"),
        "maps": explored("map_group", "map_number"),
        "levels": progress("level_sum"),
        "badges": progress("badge_count"),
        "events": NewEvents(),
        "trainers": progress("trainers"),
        "healing": Healing(),
        "champion": flag("champion"),
    }
    known: Mapping[str, Term] = {name: Known(term) for name, term in terms.items()}
    return [LastGood(), *weighted(known, WEIGHTS, weights)]


class Known(Term):
    """Another term, from the step on before which everything was known; until then nothing."""

    def __init__(self, term: Term) -> None:
        super().__init__(term.name, [*term.fields, "known"])
        self._term = term

    def __call__(self, before: Ram, after: Ram) -> float:
        """What the term says, if it can know."""
        return float(self._term(before, after)) if before["known"] else 0.0

    def check(self, ram: Ram) -> None:
        """What the term says."""
        self._term.check(ram)

    def reset(self) -> None:
        """An episode begins."""
        self._term.reset()

    def save(self) -> Any:
        """What the term remembers."""
        return self._term.save()

    def load(self, saved: Any) -> None:
        """The term remembers this."""
        self._term.load(saved)


class NewEvents(Term):
    """How many event flags were set that this episode has not seen set before. Flags that come and go count once."""

    def __init__(self) -> None:
        super().__init__("events", ["happened"])
        self._seen: npt.NDArray[np.uint8] | None = None

    def __call__(self, before: Ram, after: Ram) -> float:
        """The new ones."""
        if self._seen is not None and after["happened"] is before["happened"]:
            return 0
        seen = _without_trainers(before["happened"]) if self._seen is None else self._seen
        now = _without_trainers(after["happened"])
        self._seen = seen | now
        return int(np.bitwise_count(now & ~seen).sum())

    def reset(self) -> None:
        """None was seen."""
        self._seen = None

    def save(self) -> bytes:
        """Those seen."""
        return b"" if self._seen is None else self._seen.tobytes()

    def load(self, saved: bytes) -> None:
        """These were seen."""
        self._seen = np.frombuffer(saved, np.uint8) if len(saved) == FLAG_BYTES else None


class Healing(Term):
    """The part of the party's health that was restored outside battle, by the same party. A blackout earns nothing."""

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
    """Events without beaten trainers, which are rewarded by themselves."""
    kept = flags.copy()
    kept[0x500 // 8 : 0x860 // 8] = 0
    return kept
