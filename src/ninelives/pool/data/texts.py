"""The texts of one part of the observation, from their rows in the slab.

Most texts stay the same for a whole episode, so the last answer is kept with the bytes that it was read from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ninelives.errors import TransportError
from ninelives.spec.plan import Slots
from ninelives.spec.text import NO_TEXT, put_text, text_row, texts_of


class TextReader:
    """Texts by slot; None where a text travels by mailbox."""

    def __init__(self, rows: npt.NDArray[np.uint8]) -> None:
        self._rows = rows
        self._last: tuple[bytes, tuple[str | None, ...]] = (b"", ())

    def read(self, slots: Slots | Sequence[int]) -> tuple[str | None, ...]:
        """The texts of some slots."""
        rows = self._rows[slots]
        raw = rows.tobytes()
        if raw != self._last[0]:
            try:
                self._last = (raw, texts_of(rows))
            except ValueError as error:
                raise TransportError(
                    f"slots {list(slots)}: a text of an observation cannot be read ({error}); some code in a worker "
                    "writes into memory that it does not own"
                ) from error
        return self._last[1]

    def put(self, slot: int, text: Any) -> None:
        """Write a text; the slot's worker has answered, or is gone."""
        raw = text_row(text)
        put_text(self._rows[slot], NO_TEXT if raw is None else raw)
