"""The slow path: anything that is not a number in a fixed place. Infos, options, calls, spaces, tracebacks.

One sparse memory file with a private window per slot and direction. A message is written at the start of its window and
its length goes into a control word that is published with the request or the answer, so there is one writer and one
reader at any time, no process ever blocks on a full pipe, and the messages of a dead worker can still be read.
Windows are 4 GiB of address, not of memory: only pages that were written exist.
"""

from __future__ import annotations

import os
import pickle
from typing import Any

import cloudpickle  # type: ignore[import-untyped, unused-ignore]

from ninelives.errors import TransportError
from ninelives.transport.plain_pickle import PlainPickle

WINDOW_BYTES = 1 << 32
"""Address space of one message. A larger message is refused, not truncated."""

TO_WORKER, TO_PARENT, ORDER, STATE, SCHEMAS = 0, 1, 2, 3, 4
"""Directions: with a request, with an answer, an order to restore (to the worker), a snapshot (to the parent), what the
slot's infos look like (to the parent)."""

DIRECTIONS = 5


class Mailbox:
    """Messages by window number. Slots come first; ``worker_window`` gives each worker one of its own.

    ``plain`` says which types the answers of environments may hold.
    """

    def __init__(self, fd: int, slots: int, plain: PlainPickle | None = None) -> None:
        self.fd = fd
        self.slots = slots
        self.plain = plain or PlainPickle()

    def worker_window(self, worker: int) -> int:
        """The window in which a worker's own messages lie (specification, hello, error report)."""
        return self.slots + worker

    def put(self, window: int, direction: int, value: Any) -> int:
        """Write one object; returns its length in bytes."""
        return self.put_bytes(window, direction, cloudpickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))

    def put_bytes(self, window: int, direction: int, message: bytes) -> int:
        """Write raw bytes; returns their number."""
        if len(message) > WINDOW_BYTES:
            raise TransportError(f"a message of {len(message)} bytes is larger than the mailbox window of 4 GiB")
        at, rest = (DIRECTIONS * window + direction) * WINDOW_BYTES, memoryview(message)
        while rest:
            written = os.pwrite(self.fd, rest, at)
            at, rest = at + written, rest[written:]
        return len(message)

    def get(self, window: int, direction: int, nbytes: int) -> Any:
        """Read back the object of ``nbytes`` bytes. Only our own processes can write here."""
        return pickle.loads(self.get_bytes(window, direction, nbytes))

    def put_plain(self, window: int, direction: int, value: Any) -> int:
        """Write one object of plain data; returns its length in bytes.

        Raises:
            RefusedTypeError: it holds something else.
        """
        return self.put_bytes(window, direction, self.plain.dumps(value))

    def get_plain(self, window: int, direction: int, nbytes: int) -> Any:
        """Read back an object of plain data; nothing else is ever loaded, whatever the worker has written."""
        message = self.get_bytes(window, direction, nbytes)
        try:
            return self.plain.loads(message)
        except Exception as error:
            raise TransportError(
                f"slot {window}: its worker wrote a message of {nbytes} bytes that was not loaded ({error}); a worker "
                "checks all it sends, so some code in it writes into memory that it does not own"
            ) from error

    def get_bytes(self, window: int, direction: int, nbytes: int) -> bytes:
        """Read back raw bytes."""
        at, parts = (DIRECTIONS * window + direction) * WINDOW_BYTES, []
        while nbytes > 0:
            part = os.pread(self.fd, nbytes, at)
            if not part:
                raise TransportError(f"mailbox window {window} is shorter than its announced length")
            parts.append(part)
            at, nbytes = at + len(part), nbytes - len(part)
        return b"".join(parts)
