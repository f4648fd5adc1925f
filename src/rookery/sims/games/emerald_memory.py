"""Where Pokemon Emerald (USA) keeps what a player knows, and how to read it without being fooled by a transition.

Addresses are the symbols of the public decompilation ``pret/pokeemerald`` (branch ``symbols``), which builds the very
bytes of the retail game; offsets are those of its ``include/global.h``. Between two frames the game may be in the
middle of moving its save blocks or of loading a map. That is no corruption: a part that makes no sense just now keeps
its last good value, and ``settled`` is 0. Reads only; knows nothing of rewards.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rookery.sims.emulator import Memory
from rookery.sims.games.emerald_map import VIEW, read_map
from rookery.sims.games.emerald_party import MEMBER_BYTES, MEMBERS, read_party

EWRAM, EWRAM_BYTES = 0x02000000, 0x40000
IWRAM, IWRAM_BYTES = 0x03000000, 0x8000

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
"""``SAVEBLOCK_MOVE_RANGE``: the save blocks lie this far or less behind their first place, both equally far."""
MOST_MONEY = 999_999

_POSITION, _LOCATION, _MONEY, _FLAGS, _KEY = 0x00, 0x04, 0x490, 0x1270, 0xAC
FLAG_BYTES = 300
_VBLANK_CALLBACK, _STATUS = 0x0C, 0x439
_IN_BATTLE = 0b10
_TRAINER_BATTLE = 1 << 3

TEMPORARY_FLAGS = range(0x20)
TRAINER_FLAGS = range(0x500, 0x860)
DAILY_FLAGS = range(0x920, 0x960)
GAME_CLEAR = 0x864
BADGES = range(0x867, 0x86F)
"""Numbers of flags: ``include/constants/flags.h``."""

SHAPES: Mapping[str, tuple[tuple[int, ...], type[np.unsignedinteger[Any]]]] = {
    "settled": ((), np.uint8),
    "party_count": ((), np.uint8),
    "species": ((MEMBERS,), np.uint16),
    "level": ((MEMBERS,), np.uint8),
    "hp": ((MEMBERS,), np.uint16),
    "max_hp": ((MEMBERS,), np.uint16),
    "experience": ((MEMBERS,), np.uint32),
    "egg": ((MEMBERS,), np.uint8),
    "badges": ((), np.uint8),
    "money": ((), np.uint32),
    "x": ((), np.uint16),
    "y": ((), np.uint16),
    "map_group": ((), np.uint8),
    "map_number": ((), np.uint8),
    "map_width": ((), np.uint16),
    "map_height": ((), np.uint16),
    "walls": (VIEW, np.uint8),
    "events": ((), np.uint16),
    "trainers": ((), np.uint16),
    "champion": ((), np.uint8),
    "flags": ((FLAG_BYTES,), np.uint8),
    "in_battle": ((), np.uint8),
    "trainer_battle": ((), np.uint8),
    "battle_outcome": ((), np.uint8),
}
"""Every field with its shape and type."""

Values = dict[str, Any]


class EmeraldReader:
    """Reads every field of a running game; parts in transition keep their last good values."""

    def __init__(self, memory: Memory) -> None:
        self._ewram = memory.view(EWRAM, EWRAM_BYTES)
        self._iwram = memory.view(IWRAM, IWRAM_BYTES)
        self._good = nothing_known()

    def read(self) -> Values:
        """The fields now."""
        save, party = self._save(), self._party()
        here = self._map(save["x"], save["y"]) if save else None
        for part in (save, party, here):
            self._good.update(part or {})
        self._good.update(self._battle(), settled=int(None not in (save, party, here)))
        return dict(self._good)

    def reset(self) -> None:
        """Forget what was good: another moment of the game was loaded."""
        self._good = nothing_known()

    def save(self) -> Values:
        """What must be remembered to go on exactly from here."""
        return dict(self._good)

    def load(self, saved: Mapping[str, Any]) -> None:
        """Remember what ``save`` gave."""
        self._good = {name: _as_field(name, saved[name]) for name in SHAPES}

    def _save(self) -> Values | None:
        block1, block2 = self._u32("gSaveBlock1Ptr"), self._u32("gSaveBlock2Ptr")
        moved = block1 - SYMBOLS["gSaveblock1"]
        if moved != block2 - SYMBOLS["gSaveblock2"] or moved not in range(0, MOVE_RANGE, 4):
            return None
        if not self._word(SYMBOLS["gMain"] + _VBLANK_CALLBACK):
            return None  # MoveSaveBlocks_ResetHeap takes the callback away while it copies the blocks
        money = self._word(block1 + _MONEY) ^ self._word(block2 + _KEY)
        if money > MOST_MONEY:
            return None  # the key was changed and the money not yet
        x, y, group, number = struct.unpack("<hhBB", self._bytes(block1 + _POSITION, 6).tobytes())
        if x < 0 or y < 0:
            return None
        flags = self._bytes(block1 + _FLAGS, FLAG_BYTES).copy()
        place = {"x": x, "y": y, "map_group": group, "map_number": number}
        return {"money": money, **place, "flags": flags, **told_by(flags)}

    def _party(self) -> Values | None:
        data = self._bytes(SYMBOLS["gPlayerParty"], MEMBERS * MEMBER_BYTES)
        party = read_party(int(self._bytes(SYMBOLS["gPlayerPartyCount"], 1)[0]), data)
        if party is None:
            return None
        numbers = {name: getattr(party, name) for name in ("species", "level", "hp", "max_hp", "experience", "egg")}
        return {"party_count": party.count, **numbers}

    def _map(self, x: int, y: int) -> Values | None:
        layout = struct.unpack("<iiI", self._bytes(SYMBOLS["gBackupMapLayout"], 12).tobytes())
        here = read_map(layout, self._ewram, EWRAM, x, y)
        return None if here is None else {"map_width": here.width, "map_height": here.height, "walls": here.walls}

    def _battle(self) -> Values:
        fighting = bool(self._bytes(SYMBOLS["gMain"] + _STATUS, 1)[0] & _IN_BATTLE)
        trainer = fighting and bool(self._u32("gBattleTypeFlags") & _TRAINER_BATTLE)
        outcome = int(self._bytes(SYMBOLS["gBattleOutcome"], 1)[0])
        return {"in_battle": int(fighting), "trainer_battle": int(trainer), "battle_outcome": outcome}

    def _bytes(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        block, first = (self._iwram, IWRAM) if address >= IWRAM else (self._ewram, EWRAM)
        return block[address - first : address - first + size]

    def _word(self, address: int) -> int:
        return int.from_bytes(self._bytes(address, 4).tobytes(), "little")

    def _u32(self, symbol: str) -> int:
        return self._word(SYMBOLS[symbol])


def nothing_known() -> Values:
    """The fields before a game is loaded: zeros."""
    return {name: _as_field(name, np.zeros(shape, dtype)) for name, (shape, dtype) in SHAPES.items()}


def told_by(flags: npt.NDArray[np.uint8]) -> Values:
    """What the event flags say: badges as bits, beaten trainers, the champion, and how many other events happened."""
    bits = np.unpackbits(flags, bitorder="little")
    trainers = int(bits[TRAINER_FLAGS.start : TRAINER_FLAGS.stop].sum())
    passing = sum(int(bits[span.start : span.stop].sum()) for span in (TEMPORARY_FLAGS, DAILY_FLAGS))
    return {
        "badges": int(np.packbits(bits[BADGES.start : BADGES.stop], bitorder="little")[0]),
        "trainers": trainers,
        "champion": int(bits[GAME_CLEAR]),
        "events": int(bits.sum()) - trainers - passing,
    }


def _as_field(name: str, value: Any) -> Any:
    """A Python int for a single number, else an array of the field's own type and shape."""
    shape, dtype = SHAPES[name]
    array = np.array(value, dtype).reshape(shape)
    return array if shape else int(array)
