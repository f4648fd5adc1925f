"""What lies behind the machine itself in a state of mGBA's core: the cartridge's save memory and the clock. Pure.

A state is the machine's memory in a fixed size, then a table of records. Old cores write no table.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

MACHINE_BYTES = {"gba": 0x61000, "gb": 0x11800, "gbc": 0x11800}
"""Where the table begins."""

GBA_SPRITES_AT = 0xC00
CARTRIDGE, CLOCK = 2, 4
ENTRY = struct.Struct("<IiQ")
CLOCK_RECORD = struct.Struct("<iiq")
COUNTS_FRAMES = 2
"""A clock that shows its start time plus the frames that were run; nothing of the host's time."""

START_MS = 1_704_067_200_000
"""Every cartridge clock begins on 1 January 2024, 00:00 UTC."""

MOST_RECORDS = 16


def holds_cartridge(state: bytes, system: str) -> bool:
    """Whether the cartridge's save memory is in the state."""
    return any(tag == CARTRIDGE for tag, _, _ in _records(state, system))


def clock_at(state: bytes, system: str) -> int | None:
    """Where the clock's record is; None if the state has none."""
    return next((at for tag, size, at in _records(state, system) if tag == CLOCK and size >= CLOCK_RECORD.size), None)


def with_pinned_clock(state: bytes, system: str) -> bytes:
    """The same state with a clock that counts frames; as it is if it has no clock or the clock counts them already."""
    at = clock_at(state, system)
    if at is None or CLOCK_RECORD.unpack_from(state, at)[0] == COUNTS_FRAMES:
        return state
    return state[:at] + CLOCK_RECORD.pack(COUNTS_FRAMES, 0, START_MS) + state[at + CLOCK_RECORD.size :]


def end_of(state: bytes, system: str) -> int:
    """Where the last record ends: what lies behind it is not the state's. All of it, if there is no table."""
    return max((place + size for _, size, place in _records(state, system)), default=len(state))


def first_sprite_byte(state: bytes) -> int:
    """The first byte of the memory for sprites in a state of a GBA; 0 if the state is too short to be one."""
    return state[GBA_SPRITES_AT] if len(state) > GBA_SPRITES_AT else 0


def _records(state: bytes, system: str) -> Iterator[tuple[int, int, int]]:
    """Tag, size and place of every record of the table; none if the table is missing or makes no sense."""
    at = MACHINE_BYTES.get(system, len(state))
    for _ in range(MOST_RECORDS):
        if at + ENTRY.size > len(state):
            return
        tag, size, place = ENTRY.unpack_from(state, at)
        if tag == 0 or size < 0 or place + size > len(state):
            return
        yield tag, size, place
        at += ENTRY.size
