"""Everything the processes of one pool share: three memory files and a bell each. Made before any of them starts.

The control segment and the mailbox need only counts; the data slab gets its size when the first worker has told its
spaces (the file exists from the start, so that every worker has its descriptor).
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ninelives.native import native_module
from ninelives.spec.layout import Layout
from ninelives.transport.bell import Bell
from ninelives.transport.control import Control, control_layout
from ninelives.transport.exchange import PARENT_ROUNDS, PyCaller
from ninelives.transport.mailbox import Mailbox
from ninelives.transport.segment import Segment, memory_file


class Wiring:
    """Segments, mailbox and bells of one pool."""

    def __init__(self, workers: int, slots: int, spares: int = 0) -> None:
        self.workers, self.slots, self.spares = workers, slots, spares
        # Environments of spares have slot numbers of their own, beyond the pool's, until they step in.
        self.slots_per_spare = slots if spares else 0
        self._lines, self._rows = workers + spares, slots + spares * self.slots_per_spare
        self._control_segment = Segment.sized(memory_file("control"), control_layout(self._lines, self._rows).nbytes)
        self.control = Control(self._control_segment.buffer, self._lines, self._rows, slots)
        self.slab_fd = memory_file("slab")
        self.mail = Mailbox(memory_file("mail"), self._rows)
        self.parent_bell = Bell.create()
        self.bells = [Bell.create() for _ in range(self._lines)]
        self._line_of = np.zeros(0, np.int32)
        self._worker_of = np.zeros(0, np.int32)
        self._slab: Segment | None = None

    @property
    def shared_fds(self) -> list[int]:
        """Every descriptor the keeper must hold to hand it on."""
        ends = [end for bell in self.bells for end in (bell.wait_fd, bell.ring_fd)]
        return sorted({*self._common_fds, *ends})

    @property
    def _common_fds(self) -> list[int]:
        return [self._control_segment.fd, self.slab_fd, self.mail.fd, self.parent_bell.ring_fd]

    def fds_of(self, worker: int) -> list[int]:
        """The descriptors one worker may hold: no sibling's bell among them."""
        bell = self.bells[worker]
        return sorted({*self._common_fds, bell.wait_fd, bell.ring_fd})

    def seat(self, worker: int, generation: int, scratch: str, letter_bytes: int) -> dict[str, Any]:
        """What a worker needs to find its place, as JSON can carry it."""
        bell = self.bells[worker]
        return {
            "worker": worker,
            "generation": generation,
            "workers": self._lines,
            "slots": self._rows,
            "control_fd": self._control_segment.fd,
            "slab_fd": self.slab_fd,
            "mail_fd": self.mail.fd,
            "bell": [bell.wait_fd, bell.ring_fd],
            "parent_bell": [self.parent_bell.ring_fd, self.parent_bell.ring_fd],
            "scratch": scratch,
            "letter_bytes": letter_bytes,
        }

    def size_slab(self, layout: Layout) -> Any:
        """Give the data slab its size; returns its arrays by name."""
        self._slab = Segment.sized(self.slab_fd, layout.nbytes)
        return layout.views(self._slab.buffer)

    def caller(self, worker_of: list[int], extra_fd: int) -> Any:
        """The parent's side of the exchange: the native one where it is built."""
        native = native_module("ninelives.transport._exchange")
        make = native.Caller if native is not None else PyCaller
        self._worker_of = np.array(worker_of, np.int32)
        self._line_of = self._worker_of.copy()
        return make(
            parent=self.control.parent,
            from_worker=self.control.from_worker,
            group=self.control.group,
            bells=np.array([bell.ring_fd for bell in self.bells], np.int32),
            worker_of=self._line_of,
            own_fd=self.parent_bell.wait_fd,
            extra_fd=extra_fd,
            rounds=PARENT_ROUNDS,
        )

    def take_line(self, worker: int, line: int) -> None:
        """The worker's groups are served by the process on another line from now on."""
        self._line_of[self._worker_of == worker] = line

    def close(self) -> None:
        """Close descriptors; the memory itself goes with the last mapping."""
        for bell in (*self.bells, self.parent_bell):
            bell.close()
        for fd in (self._control_segment.fd, self.slab_fd, self.mail.fd):
            os.close(fd)
