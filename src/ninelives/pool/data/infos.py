"""Infos of numbers from the slab: whole columns of a batch at once, or one slot's info as a dictionary.

Reads what workers have published and trusts none of it: a schema is checked before it is used, and one that cannot be
found is reported as a fault of its slot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ninelives.errors import TransportError
from ninelives.native import native_module
from ninelives.spec.info_schema import MAX_SCHEMAS, InfoSchema
from ninelives.spec.phase import Status
from ninelives.spec.plan import Slots
from ninelives.transport.control import Control
from ninelives.transport.mailbox import SCHEMAS, TO_PARENT, Mailbox

MOST_BYTES = 1 << 20
"""Schemas of one slot; no worker of ours writes more."""

MOST_KNOWN = 4096
"""Schemas of all slots and generations; beyond, all are read anew from the slots that use them."""


class InfoReader:
    """The infos of one pool's slots."""

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]], control: Control, mail: Mailbox) -> None:
        self._places: npt.NDArray[np.uint8] = arrays["infos"]
        self._control, self._mail, self._words = control, mail, control.info_schema
        self._known: dict[int, InfoSchema] = {}
        self._native: Any = native_module("ninelives.pool.data._batch")

    def words(self, slots: Slots | None, silent: npt.NDArray[np.bool_] | None = None) -> list[int]:
        """The schema of each of these slots' infos (None: all slots); 0 where there are none, or the row is silent."""
        words = self._words if slots is None else self._words[slots]
        if silent is not None:
            words = np.where(silent, np.uint64(0), words)
        numbers: list[int] = words.tolist()
        return numbers

    def find_unreadable(self, slots: Slots | None) -> list[int]:
        """Slots that name a schema which they have not announced; schemas that are new to us are learned."""
        words = self.words(slots)
        unknown = set(words).difference(self._known, (0,))
        if not unknown:
            return []
        if len(self._known) > MOST_KNOWN:
            self._known.clear()
            unknown = set(words) - {0}
        at = range(len(words)) if slots is None else slots.tolist()
        asking = [slot for slot, word in zip(at, words, strict=True) if word in unknown]
        for slot in asking:
            if int(self._words[slot]) not in self._known:
                self._learn(slot)
        return [slot for slot in asking if int(self._words[slot]) not in self._known]

    def report(self, slot: int) -> None:
        """Make a slot's unreadable info a fault of that slot. Its worker has answered, so its words are ours."""
        summary = (
            "wrote infos in a layout that it has not announced: some code in its worker writes into memory that it "
            "does not own"
        )
        report = {"summary": summary, "phase": "step", "traceback": ""}
        self._control.info_schema[slot] = 0
        self._control.mail_bytes[slot] = self._mail.put_plain(slot, TO_PARENT, report)
        self._control.status[slot] = Status.BAD_DATA

    def info(self, slot: int, word: int) -> dict[str, Any]:
        """One slot's info as its environment gave it."""
        return self._known[word].info(self._places[slot])

    def columns(self, words: list[int], slots: Slots | None) -> dict[str, Any] | None:
        """Vector infos of these slots (None: all), which have these schemas.

        None where slots disagree about the type of a key.
        """
        first = words[0] if words else 0
        if words.count(first) == len(words):
            return self._equal_columns(self._known[first], slots) if first else {}
        return self._mixed_columns(np.array(words, np.uint64), slots)

    def _equal_columns(self, schema: InfoSchema, slots: Slots | None) -> dict[str, Any]:
        if self._native is not None:
            columns: dict[str, Any] = self._native.columns(self._places, slots, schema.plan)
            return columns
        rows = self._places if slots is None else self._places[slots]
        infos: dict[str, Any] = {}
        for field in schema.fields:
            infos[field.key], infos[f"_{field.key}"] = field.column(rows), np.ones(len(rows), np.bool_)
        return infos

    def _mixed_columns(self, words: npt.NDArray[np.uint64], slots: Slots | None) -> dict[str, Any] | None:
        """Schema by schema, in the order in which rows first have them: keys appear as if rows were merged in turn."""
        infos: dict[str, Any] = {}
        kinds: dict[str, Any] = {}
        for word in dict.fromkeys(words.tolist()):
            rows = np.flatnonzero(words == word)
            place = self._places[rows if slots is None else slots[rows]]
            for field in self._known[word].fields if word else ():
                kind = (field.column_dtype, field.shape)
                if kinds.setdefault(field.key, kind) != kind:
                    return None
                if field.key not in infos:
                    infos[field.key] = field.empty_column(len(words))
                    infos[f"_{field.key}"] = np.zeros(len(words), np.bool_)
                infos[field.key][rows] = field.column(place)
                infos[f"_{field.key}"][rows] = True
        return infos

    def _learn(self, slot: int) -> None:
        """Read the schemas that a slot has announced; what cannot be read, or is no schema, is left out."""
        nbytes = int(self._control.schema_bytes[slot])
        if not 0 < nbytes <= MOST_BYTES:
            return
        try:
            for description in list(self._mail.get_plain(slot, SCHEMAS, nbytes))[:MAX_SCHEMAS]:
                schema = InfoSchema.of(description)
                self._known[schema.number] = schema
        except (TransportError, TypeError, ValueError):
            return
