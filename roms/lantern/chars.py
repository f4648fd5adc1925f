"""Converts the graphics of Lantern to the console's format: 8 kB of tiles, letters at their ASCII codes."""

from __future__ import annotations

from pathlib import Path

from texts import sections

HERE = Path(__file__).parent
FONT = HERE.parent / "errand" / "art" / "font.txt"


def tile(rows: list[str]) -> bytes:
    """Two planes of eight bytes: the low and the high bit of every pixel's colour."""
    inks = [[".123".index(mark) for mark in row] for row in rows]
    return bytes(sum((ink >> plane & 1) << 7 - i for i, ink in enumerate(row)) for plane in (0, 1) for row in inks)


def compose() -> bytes:
    """Both banks of tiles; the second is empty."""
    chars = bytearray(0x2000)

    def put(number: int, rows: list[str]) -> None:
        chars[number * 16 : number * 16 + 16] = tile(rows)

    for title, rows in sections(HERE / "art.txt"):
        number = int(title.split()[1], 16)
        corners = [(0, 0)] if len(rows) == 8 else [(0, 0), (8, 0), (0, 8), (8, 8)]
        for i, (x, y) in enumerate(corners):
            put(number + i, [row[x : x + 8] for row in rows[y : y + 8]])
    for characters, rows in sections(FONT):
        for i, character in enumerate(characters):
            put(ord(character), [f".{row.split()[i].replace('#', '1')}.." for row in rows] + ["." * 8])
    return bytes(chars)
