"""One slot's infos into its place in the slab, where they are numbers; learns and announces their schemas.

Writes the slot's bytes of ``infos``, its schema word and its window of schemas. Never sends an info by mail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ninelives.native import native_module
from ninelives.spec.info_schema import MAX_SCHEMAS, InfoSchema
from ninelives.spec.phase import Attention
from ninelives.transport.control import Control
from ninelives.transport.mailbox import SCHEMAS, Mailbox

UNKNOWN = -1
"""Instead of attention bits: the info fits no known schema."""

Wanted = frozenset[str] | None
"""The keys that somebody reads; None: all."""


class Packer(Protocol):
    """Writes infos that fit a known schema; the native one and ``PyPacker`` write the same bytes."""

    def pack(self, info: Any) -> int:
        """Write an info and say so in the schema word; returns attention bits, or ``UNKNOWN`` with the word zero."""
        ...

    def learn(self, schema: InfoSchema) -> None:
        """One more schema to try."""
        ...


class PyPacker:
    """The packer in pure Python."""

    def __init__(self, place: npt.NDArray[np.uint8], word: npt.NDArray[np.uint64], wanted: Wanted) -> None:
        self._place, self._word, self._wanted = place, word, wanted
        self._schemas: list[InfoSchema] = []

    def learn(self, schema: InfoSchema) -> None:
        """One more schema to try."""
        self._schemas.append(schema)

    def pack(self, info: Any) -> int:
        """Write an info if it fits a schema."""
        number, found = 0, UNKNOWN
        if type(info) is dict:
            if self._wanted is not None:
                info = {key: value for key, value in info.items() if key in self._wanted}
            number = 0 if not info else self._write(info)
            found = Attention.INFO if number else UNKNOWN if info else Attention.NONE
        if self._word[0] != number:
            self._word[0] = number
        return found

    def _write(self, info: Mapping[str, Any]) -> int:
        keys = list(info)
        for schema in self._schemas:
            if keys == [field.key for field in schema.fields] and all(f.fits(info[f.key]) for f in schema.fields):
                for field in schema.fields:
                    field.write(self._place, info[field.key])
                return schema.number
        return 0


class InfoWriter:
    """The infos of one slot. ``pack`` is the packer's own, for the native loop."""

    def __init__(
        self, index: int, control: Control, mail: Mailbox, places: npt.NDArray[np.uint8], wanted: Wanted
    ) -> None:
        self._index, self._control, self._mail = index, control, mail
        native = native_module("ninelives.worker._infos")
        make: Callable[..., Packer] = PyPacker if native is None else native.Packer
        self._packer = make(places[index], control.info_schema[index : index + 1], wanted)
        self.pack = self._packer.pack
        self._schemas: list[InfoSchema] = []

    def put(self, info: dict[str, Any]) -> int:
        """Write an info, in a new schema if need be; returns attention bits, or ``UNKNOWN``: it must go by mail."""
        bits = self.pack(info)
        if bits != UNKNOWN or len(self._schemas) == MAX_SCHEMAS:
            return bits
        schema = InfoSchema.learned(info)
        if schema is None or schema in self._schemas:  # the same schema: some number is too large for its place
            return UNKNOWN
        self._announce(schema)
        return self.pack(info)

    def clear(self) -> int:
        """This answer's info goes by mail."""
        self._control.info_schema[self._index] = 0
        return UNKNOWN

    def _announce(self, schema: InfoSchema) -> None:
        """Publish all schemas of this slot; the parent looks for them when it sees a number that it does not know.

        They stay in a window of their own: the answer in which a schema first came up may never be looked at.
        """
        self._schemas.append(schema)
        descriptions = [known.description for known in self._schemas]
        nbytes = self._mail.put_plain(self._index, SCHEMAS, descriptions)
        self._control.schema_bytes[self._index] = nbytes
        self._packer.learn(schema)
