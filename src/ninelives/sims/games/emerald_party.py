"""Pokemon Emerald's party as numbers: decrypts what the game keeps encrypted. Pure: bytes in, arrays out.

The game XORs the encrypted part of every member with two of its public numbers and orders its four blocks by the first
(``DecryptBoxMon`` and ``GetSubstruct`` of the public decompilation). A checksum shows whether the data is valid: the
game decrypts in place for a short time, and a frame may end in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

MEMBERS = 6
MEMBER_BYTES = 100
HIGHEST_LEVEL = 100

_WORDS = MEMBER_BYTES // 4
_SECRET = slice(8, 20)
_CHECKSUM = 14
"""Index of a member's checksum among its half words."""
_LEVEL = 84
_HP = 43
_MAX_HP = 44
"""Indices among a member's half words."""

_GROWTH_BLOCK = np.array([0] * 6 + [1, 1, 2, 3, 2, 3, 1, 1, 2, 3, 2, 3, 1, 1, 2, 3, 2, 3])
"""Index of the block with species and experience, by ``personality % 24``."""

_EGG_BLOCK = np.array([3, 2, 3, 2, 1, 1, 3, 2, 3, 2, 1, 1, 3, 2, 3, 2, 1, 1, 0, 0, 0, 0, 0, 0])
"""Index of the block with the egg's bit."""
_EGG_BIT = np.uint32(1 << 30)


@dataclass(frozen=True)
class Party:
    """Six members; zeros for empty places.

    Attributes:
        count: number of members.
        species: the game's internal species numbers.
        level: 1 to 100.
        hp: current hit points.
        max_hp: maximum hit points.
        experience: experience points.
        egg: 1 for an egg.
    """

    count: int
    species: npt.NDArray[np.uint16]
    level: npt.NDArray[np.uint8]
    hp: npt.NDArray[np.uint16]
    max_hp: npt.NDArray[np.uint16]
    experience: npt.NDArray[np.uint32]
    egg: npt.NDArray[np.uint8]


@lru_cache(maxsize=64)
def read_party(count: int, data: bytes) -> Party | None:
    """The party from ``gPlayerPartyCount`` and the bytes of ``gPlayerParty``; None if they are not valid now.

    Cached because most steps do not change the party; the arrays are read-only.
    """
    if count > MEMBERS:
        return None
    members = np.zeros((MEMBERS, MEMBER_BYTES), np.uint8)
    members[:count] = np.frombuffer(data, np.uint8).reshape(MEMBERS, MEMBER_BYTES)[:count]
    words, halves = members.view("<u4"), members.view("<u2")
    secret = words[:, _SECRET] ^ (words[:, 0] ^ words[:, 1])[:, None]
    party = _unscrambled(count, members, words, secret)
    return party if _is_whole(party, secret, halves[:, _CHECKSUM]) else None


def _unscrambled(
    count: int, members: npt.NDArray[np.uint8], words: npt.NDArray[np.uint32], secret: npt.NDArray[np.uint32]
) -> Party:
    halves = members.view("<u2")
    rows, order = np.arange(MEMBERS), words[:, 0] % 24
    growth = 3 * _GROWTH_BLOCK[order]
    return Party(
        count=count,
        species=_fixed(secret[rows, growth] & 0xFFFF, np.uint16),
        level=_fixed(members[:, _LEVEL], np.uint8),
        hp=_fixed(halves[:, _HP], np.uint16),
        max_hp=_fixed(halves[:, _MAX_HP], np.uint16),
        experience=_fixed(secret[rows, growth + 1], np.uint32),
        egg=_fixed(secret[rows, 3 * _EGG_BLOCK[order] + 1] & _EGG_BIT != 0, np.uint8),
    )


def _fixed(numbers: npt.NDArray[Any], dtype: type[np.generic]) -> npt.NDArray[Any]:
    """A read-only copy."""
    copy = numbers.astype(dtype)
    copy.flags.writeable = False
    return copy


def _is_whole(party: Party, secret: npt.NDArray[np.uint32], checksums: npt.NDArray[np.uint16]) -> bool:
    sums = ((secret & 0xFFFF).sum(axis=1) + (secret >> 16).sum(axis=1)) & 0xFFFF
    there = slice(0, party.count)
    level = party.level[there]
    return bool(
        np.array_equal(sums, checksums)
        and ((level >= 1) & (level <= HIGHEST_LEVEL)).all()
        and (party.hp <= party.max_hp).all()
        and (party.max_hp[there] > 0).all()
    )
