"""The records at the end of an mGBA state: the cartridge's save memory and the clock. Pure.

A state is the machine's memory of fixed size, followed by a table of records. Old cores write no table.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

MACHINE_BYTES = {"gba": 0x61000, "gb": 0x11800, "gbc": 0x11800}
"""Offset of the table."""

GBA_SPRITES_AT = 0xC00
CARTRIDGE, CLOCK = 2, 4
ENTRY = struct.Struct("<IiQ")
CLOCK_RECORD = struct.Struct("<iiq")
COUNTS_FRAMES = 2
"""Kind of clock that shows its start time plus the emulated frames, independent of the host's time."""

START_MS = 1_704_067_200_000
"""Every cartridge clock starts on 1 January 2024, 00:00 UTC."""

MOST_RECORDS = 16


def holds_cartridge(state: bytes, system: str) -> bool:
    """Whether the state contains the cartridge's save memory."""
    return any(tag == CARTRIDGE for tag, _, _ in _records(state, system))


def clock_at(state: bytes, system: str) -> int | None:
    """Offset of the clock's record; None if the state has none."""
    return next((at for tag, size, at in _records(state, system) if tag == CLOCK and size >= CLOCK_RECORD.size), None)


def with_pinned_clock(state: bytes, system: str) -> bytes:
    """The state with a clock that counts frames; unchanged if it has no clock or the clock already counts frames."""
    at = clock_at(state, system)
    if at is None or CLOCK_RECORD.unpack_from(state, at)[0] == COUNTS_FRAMES:
        return state
    return state[:at] + CLOCK_RECORD.pack(COUNTS_FRAMES, 0, START_MS) + state[at + CLOCK_RECORD.size :]


def end_of(state: bytes, system: str) -> int:
    """The end of the last record, which is the end of the state; the whole length if there is no table."""
    return max((place + size for _, size, place in _records(state, system)), default=len(state))


def first_sprite_byte(state: bytes) -> int:
    """The first byte of sprite memory in a GBA state; 0 if the state is too short."""
    return state[GBA_SPRITES_AT] if len(state) > GBA_SPRITES_AT else 0


def _records(state: bytes, system: str) -> Iterator[tuple[int, int, int]]:
    """Tag, size and offset of every record of the table; none if the table is missing or invalid."""
    at = MACHINE_BYTES.get(system, len(state))
    for _ in range(MOST_RECORDS):
        if at + ENTRY.size > len(state):
            return
        tag, size, place = ENTRY.unpack_from(state, at)
        if tag == 0 or size < 0 or place + size > len(state):
            return
        yield tag, size, place
        at += ENTRY.size
