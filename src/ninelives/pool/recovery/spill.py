"""Old chunks of one slot's journal: in memory while they are few, in a file when an episode grows very long."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

DIGEST_BYTES = 4

MEMORY_BYTES = 64 << 20
"""Chunks of all slots together that are held in memory; a slot beyond its share of this goes to its file."""

LEAST_BYTES = 256 << 10
"""A slot's share is never smaller: a file is opened seldom."""


def share_bytes(slots: int) -> int:
    """What one of so many slots may hold in memory."""
    return max(MEMORY_BYTES // slots, LEAST_BYTES)


@dataclass
class Chunk:
    """Entries from ``start`` up to ``stop``, in memory, or at ``offset`` of the file."""

    start: int
    stop: int
    body: bytes | None
    offset: int = 0


class Shelf:
    """Chunks of the present episode; those of an earlier one are dropped when the first of a new one comes.

    ``memory_bytes`` is what is held in memory.
    """

    def __init__(self, width: int, path: Path, memory_limit: int) -> None:
        self._width, self._path, self._memory_limit = width, path, memory_limit
        self._episode = -1
        self._chunks: deque[Chunk] = deque()
        self.memory_bytes = 0

    def put(self, episode: int, start: int, actions: bytes | memoryview, digests: npt.NDArray[np.uint32]) -> None:
        """Pack away one chunk."""
        if episode != self._episode:
            self._drop_all()
            self._episode = episode
        body = b"".join((actions, digests.tobytes()))
        self._chunks.append(Chunk(start, start + len(digests), body))
        self.memory_bytes += len(body)
        if self.memory_bytes > self._memory_limit:
            self._spill()

    def get(self, episode: int, start: int, stop: int) -> tuple[bytes, bytes]:
        """Actions and digests of these entries."""
        actions, digests = b"", b""
        if episode != self._episode or start >= stop:
            return actions, digests
        for chunk in self._chunks:
            first, last = max(start, chunk.start) - chunk.start, min(stop, chunk.stop) - chunk.start
            if first < last:
                body, middle = self._body(chunk), (chunk.stop - chunk.start) * self._width
                actions += body[first * self._width : last * self._width]
                digests += body[middle + first * DIGEST_BYTES : middle + last * DIGEST_BYTES]
        return actions, digests

    def forget_before(self, step: int) -> None:
        """Entries before this step are not needed any more."""
        while self._chunks and self._chunks[0].stop <= step:
            self.memory_bytes -= len(self._chunks.popleft().body or b"")

    def _spill(self) -> None:
        """Everything goes to the file at once: opening it costs more than writing."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            for chunk in self._chunks:
                if chunk.body is not None:
                    chunk.offset = file.tell()
                    file.write(chunk.body)
                    chunk.body = None
        self.memory_bytes = 0

    def _body(self, chunk: Chunk) -> bytes:
        if chunk.body is not None:
            return chunk.body
        with self._path.open("rb") as file:
            file.seek(chunk.offset)
            return file.read((chunk.stop - chunk.start) * (self._width + DIGEST_BYTES))

    def _drop_all(self) -> None:
        self._chunks.clear()
        self.memory_bytes = 0
        self._path.unlink(missing_ok=True)
