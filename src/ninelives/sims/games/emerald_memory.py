"""Memory map of Pokemon Emerald (USA) that handles transitions between valid states. Knows nothing about rewards.

Addresses are the symbols of the public decompilation ``pret/pokeemerald`` (branch ``symbols``), which builds the exact
bytes of the retail game; offsets are those of its ``include/global.h``. Between two frames the game may be moving its
save blocks, decrypting a party member or loading a map. That is not corruption: such a part is marked as not good and
reads as zeros, and ``LastGood`` replaces it by its last good values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ninelives.sims.emulators.memory_map import Field, MemoryMap, Ram
from ninelives.sims.emulators.rewards import Term
from ninelives.sims.games.emerald_map import VIEW, cells_of, look_around
from ninelives.sims.games.emerald_party import MEMBER_BYTES, MEMBERS, Party, read_party

SYMBOLS = {
    "gBattleTypeFlags": 0x02022FEC,
    "gBattleOutcome": 0x0202433A,
    "gPlayerPartyCount": 0x020244E9,
    "gPlayerParty": 0x020244EC,
    "gSaveblock2": 0x02024A54,
    "gSaveblock1": 0x02025A00,
    "gMain": 0x030022C0,
    "gSaveBlock1Ptr": 0x03005D8C,
    "gSaveBlock2Ptr": 0x03005D90,
    "gBackupMapLayout": 0x03005DC0,
}

MOVE_RANGE = 128
"""``SAVEBLOCK_MOVE_RANGE``: both save blocks are moved by the same offset, which is less than this."""
MOST_MONEY = 999_999
FLAG_BYTES = 300

TEMPORARY_FLAGS = range(0x20)
TRAINER_FLAGS = range(0x500, 0x860)
DAILY_FLAGS = range(0x920, 0x960)
GAME_CLEAR = 0x864
BADGES = range(0x867, 0x86F)
"""Numbers of flags: ``include/constants/flags.h``."""

_IN_BATTLE = 0b10
_TRAINER_BATTLE = 1 << 3


def _in_block1(offset: int, kind: str, count: int | None = None) -> Field:
    return Field(offset, kind, count, pointer=SYMBOLS["gSaveBlock1Ptr"], null=0)


FIELDS = {
    "save_block1": Field(SYMBOLS["gSaveBlock1Ptr"], "u32"),
    "save_block2": Field(SYMBOLS["gSaveBlock2Ptr"], "u32"),
    "position": _in_block1(0x00, "i16", 2),
    "location": _in_block1(0x04, "u8", 2),
    "hidden_money": _in_block1(0x490, "u32"),
    "encryption_key": Field(0xAC, "u32", pointer=SYMBOLS["gSaveBlock2Ptr"], null=0),
    "flags": _in_block1(0x1270, "u8", FLAG_BYTES),
    "vblank_callback": Field(SYMBOLS["gMain"] + 0x0C, "u32"),
    "main_status": Field(SYMBOLS["gMain"] + 0x439),
    "battle_type": Field(SYMBOLS["gBattleTypeFlags"], "u32"),
    "battle_outcome": Field(SYMBOLS["gBattleOutcome"]),
    "party_size": Field(SYMBOLS["gPlayerPartyCount"]),
    "party_bytes": Field(SYMBOLS["gPlayerParty"], count=MEMBERS * MEMBER_BYTES),
    "map_layout": Field(SYMBOLS["gBackupMapLayout"], "i32", 3),
    "map_cells": cells_of(SYMBOLS["gBackupMapLayout"]),
}
"""The fields in memory."""


_PLACE = ("x", "y", "map_group", "map_number")
_EVENT_FLAGS = ("money", "badges", "badge_count", "champion", "events", "trainers", "happened")

PARTS = {
    "save_good": (*_PLACE, *_EVENT_FLAGS),
    "party_good": (*(f"party_{field.name}" for field in dataclasses.fields(Party)), "level_sum"),
    "map_good": ("map_width", "map_height", "walls"),
}
"""For each part that may be in transition, the variables read from it."""


def save_is_good(ram: Ram) -> bool:
    """Whether the save blocks are at a valid place and not being moved."""
    moved = ram["save_block1"] - SYMBOLS["gSaveblock1"]
    if moved != ram["save_block2"] - SYMBOLS["gSaveblock2"] or moved not in range(0, MOVE_RANGE, 4):
        return False
    if not ram["vblank_callback"]:
        return False  # MoveSaveBlocks_ResetHeap clears the callback while it copies the blocks
    if ram["hidden_money"] ^ ram["encryption_key"] > MOST_MONEY:
        return False  # the key has changed and the money has not yet
    return bool((ram["position"] >= 0).all())


def _saved(value: Callable[[Ram], int]) -> Callable[[Ram], int]:
    return lambda ram: int(value(ram)) if ram["save_good"] else 0


@dataclasses.dataclass(frozen=True)
class EventFlags:
    """The contents of the event flags; ``happened`` are the permanent ones."""

    happened: npt.NDArray[np.uint8]
    badges: int
    badge_count: int
    champion: int
    trainers: int
    events: int


@lru_cache(maxsize=64)
def read_event_flags(flags: bytes) -> EventFlags:
    """Decode the event flags. Cached because most steps do not change them; the array is read-only."""
    bits = np.unpackbits(np.frombuffer(flags, np.uint8), bitorder="little")
    for span in (TEMPORARY_FLAGS, DAILY_FLAGS):
        bits[span.start : span.stop] = 0
    badges, trainers = bits[BADGES.start : BADGES.stop], int(bits[TRAINER_FLAGS.start : TRAINER_FLAGS.stop].sum())
    happened = np.packbits(bits, bitorder="little")
    happened.flags.writeable = False
    return EventFlags(
        happened=happened,
        badges=int(np.packbits(badges, bitorder="little")[0]),
        badge_count=int(badges.sum()),
        champion=int(bits[GAME_CLEAR]),
        trainers=trainers,
        events=int(bits.sum()) - trainers,
    )


def _of_event_flags(name: str) -> Callable[[Ram], Any]:
    return lambda ram: getattr(ram["event_flags"], name)


def _of_party(name: str) -> Callable[[Ram], Any]:
    return lambda ram: getattr(ram["party"] or _NO_PARTY, name)


def _of_map(value: Callable[[Any], Any], otherwise: Any) -> Callable[[Ram], Any]:
    return lambda ram: value(ram["surroundings"]) if ram["surroundings"] is not None else otherwise


_NO_PARTY = read_party(0, bytes(MEMBERS * MEMBER_BYTES))
_NO_EVENT_FLAGS = read_event_flags(bytes(FLAG_BYTES))
_NO_WALLS = np.zeros(VIEW, np.uint8)

DERIVED: Mapping[str, Callable[[Ram], Any]] = {
    "save_good": lambda ram: int(save_is_good(ram)),
    "x": _saved(lambda ram: ram["position"][0]),
    "y": _saved(lambda ram: ram["position"][1]),
    "map_group": _saved(lambda ram: ram["location"][0]),
    "map_number": _saved(lambda ram: ram["location"][1]),
    "money": _saved(lambda ram: ram["hidden_money"] ^ ram["encryption_key"]),
    "event_flags": lambda ram: read_event_flags(ram["flags"].tobytes()) if ram["save_good"] else _NO_EVENT_FLAGS,
    **{field.name: _of_event_flags(field.name) for field in dataclasses.fields(EventFlags)},
    "party": lambda ram: read_party(ram["party_size"], ram["party_bytes"].tobytes()),
    "party_good": lambda ram: int(ram["party"] is not None),
    **{f"party_{field.name}": _of_party(field.name) for field in dataclasses.fields(Party)},
    "level_sum": lambda ram: int(ram["party_level"].sum()),
    "surroundings": lambda ram: (
        look_around(ram["map_layout"], ram["map_cells"], ram["x"], ram["y"]) if ram["save_good"] else None
    ),
    "map_good": lambda ram: int(ram["surroundings"] is not None),
    "map_width": _of_map(lambda near: near.width, 0),
    "map_height": _of_map(lambda near: near.height, 0),
    "walls": _of_map(lambda near: near.walls, _NO_WALLS),
    "in_battle": lambda ram: int(bool(ram["main_status"] & _IN_BATTLE)),
    "trainer_battle": lambda ram: int(bool(ram["in_battle"] and ram["battle_type"] & _TRAINER_BATTLE)),
    "settled": lambda ram: int(all(ram[part] for part in PARTS)),
    "known": lambda ram: ram["settled"],
}
"""Variables computed from the fields."""

MEMORY = MemoryMap(FIELDS, DERIVED)


class LastGood(Term):
    """Replaces a part in transition by its last good values; its own value is zero. It must be the first term.

    ``known`` becomes 1 once every part has been good in this episode.
    """

    def __init__(self) -> None:
        super().__init__("last_good", [name for part, names in PARTS.items() for name in (part, *names)])
        self._good: dict[str, dict[str, Any]] = {}

    def __call__(self, before: Ram, after: Ram) -> float:
        """Zero; fills in missing values."""
        for moment in (before, after):
            self._complete(moment)
        return 0.0

    def _complete(self, moment: Any) -> None:
        for part, names in PARTS.items():
            if moment[part]:
                self._good[part] = {name: moment[name] for name in names}
            else:
                moment.update(self._good.get(part, {}))
        moment["known"] = int(len(self._good) == len(PARTS))

    def reset(self) -> None:
        """Forget the last good values."""
        self._good = {}

    def save(self) -> dict[str, dict[str, Any]]:
        """The last good values."""
        return {part: dict(values) for part, values in self._good.items()}

    def load(self, saved: dict[str, dict[str, Any]]) -> None:
        """Restore the last good values."""
        self._good = {part: dict(saved[part]) for part in PARTS if part in saved}
