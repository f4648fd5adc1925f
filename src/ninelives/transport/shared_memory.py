"""Everything the processes of one pool share: three memory files, and a bell for each process.

Made before any of them starts. The control segment and the mailbox need only counts; the data slab gets its size when
the first worker has reported its spaces (the file exists from the start, so that every worker has its descriptor).
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ninelives.spec.layout import Layout
from ninelives.transport.bell import Bell
from ninelives.transport.control import Control, control_layout
from ninelives.transport.exchange import Caller, make_caller
from ninelives.transport.mailbox import Mailbox
from ninelives.transport.segment import Segment, memory_file


class SharedMemory:
    """Segments, mailbox and bells of one pool.

    A *line* is the place of one process, worker or spare, in the control segment.
    """

    def __init__(self, workers: int, slots: int, spares: int = 0) -> None:
        self.workers, self.slots, self.spares = workers, slots, spares
        # Environments of spares have slot numbers of their own, beyond the pool's, until the spare replaces a worker.
        self.slots_per_spare = slots if spares else 0
        self._lines, self.rows = workers + spares, slots + spares * self.slots_per_spare
        self._control_segment = Segment.sized(memory_file("control"), control_layout(self._lines, self.rows).nbytes)
        self.control = Control(self._control_segment.buffer, self._lines, self.rows, slots)
        self.slab_fd = memory_file("slab")
        self.mail = Mailbox(memory_file("mail"), self.rows)
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

    def place_of(self, worker: int, generation: int, scratch: str, message_bytes: int) -> dict[str, Any]:
        """The ``WorkerPlace`` of a process, as JSON can carry it."""
        bell = self.bells[worker]
        return {
            "worker": worker,
            "generation": generation,
            "workers": self._lines,
            "slots": self.rows,
            "control_fd": self._control_segment.fd,
            "slab_fd": self.slab_fd,
            "mail_fd": self.mail.fd,
            "bell": [bell.wait_fd, bell.ring_fd],
            "parent_bell": [self.parent_bell.ring_fd, self.parent_bell.ring_fd],
            "scratch": scratch,
            "message_bytes": message_bytes,
        }

    def size_slab(self, layout: Layout) -> Any:
        """Give the data slab its size; returns its arrays by name."""
        self._slab = Segment.sized(self.slab_fd, layout.nbytes)
        return layout.views(self._slab.buffer)

    def caller(self, worker_of: list[int], extra_fd: int) -> Caller:
        """The parent's side of the exchange, for groups that are served by these workers."""
        self._worker_of = np.array(worker_of, np.int32)
        self._line_of = self._worker_of.copy()
        return make_caller(self.control, self.bells, self._line_of, self.parent_bell, extra_fd)

    def move_to_line(self, worker: int, line: int) -> None:
        """The worker's groups are served by the process on another line from now on."""
        self._line_of[self._worker_of == worker] = line

    def close(self) -> None:
        """Close descriptors; the memory itself goes with the last mapping."""
        for bell in (*self.bells, self.parent_bell):
            bell.close()
        for fd in (self._control_segment.fd, self.slab_fd, self.mail.fd):
            os.close(fd)
