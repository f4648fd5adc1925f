"""Texts of observations as rows of bytes: two bytes for the length plus one, UTF-8, zeros.

Pure. A text that is too long, is no plain string, or has no UTF-8, has no such row; it travels by mailbox, and its row
is empty. worker/_loop.c writes the same bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

TEXT_BYTES = 256
HEADER_BYTES = 2
BLANK = b"\x01".ljust(TEXT_BYTES, b"\0")
"""The row of the empty text."""

NO_TEXT = bytes(TEXT_BYTES)
"""The row of a text that travels by mailbox."""


def text_row(text: Any) -> bytes | None:
    """The row of a text; None if it has none."""
    if type(text) is not str or len(text) > TEXT_BYTES:
        return None
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        return None
    if len(raw) > TEXT_BYTES - HEADER_BYTES:
        return None
    return ((len(raw) + 1).to_bytes(HEADER_BYTES, "little") + raw).ljust(TEXT_BYTES, b"\0")


def text_of(row: bytes) -> str | None:
    """The text in a row; None for an empty row.

    Raises:
        ValueError: no worker of ours writes such a row.
    """
    end = HEADER_BYTES + int.from_bytes(row[:HEADER_BYTES], "little") - 1
    if end < HEADER_BYTES:
        return None
    if end > TEXT_BYTES:
        raise ValueError(f"a text of {end - HEADER_BYTES} bytes in a row of {TEXT_BYTES}")
    return row[HEADER_BYTES:end].decode()


def texts_of(rows: npt.NDArray[np.uint8]) -> tuple[str | None, ...]:
    """The texts of some rows."""
    return tuple(text_of(row.tobytes()) for row in rows)


def put_text(row: npt.NDArray[np.uint8], raw: bytes) -> None:
    """Write the bytes of a row."""
    row[:] = np.frombuffer(raw, np.uint8)
