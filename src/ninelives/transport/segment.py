"""Anonymous shared memory: born without a name, gone with its last process.

A segment is a memory file that never had an entry in any directory, so no other user can open it and nothing is left in
``/dev/shm`` however its processes die. Workers get it as an inherited descriptor. Where the system has no memory files,
an unlinked temporary file serves.
"""

from __future__ import annotations

import mmap
import os
import tempfile

from ninelives.errors import TransportError
from ninelives.host import above_standard


def memory_file(name: str) -> int:
    """Descriptor of a new, nameless, empty file in memory; closed on exec like every descriptor of Python."""
    try:
        if hasattr(os, "memfd_create"):
            return above_standard(os.memfd_create(f"ninelives-{name}", os.MFD_CLOEXEC))
        fd, path = tempfile.mkstemp(prefix="ninelives-")
        os.unlink(path)
        return above_standard(fd)
    except OSError as error:
        raise TransportError(f"cannot create the shared segment {name!r}: {error}; see `ninelives doctor`") from error


class Segment:
    """One mapped memory file."""

    def __init__(self, fd: int, nbytes: int) -> None:
        self.fd = fd
        self.nbytes = nbytes
        try:
            self.buffer = mmap.mmap(fd, nbytes)
        except (OSError, ValueError) as error:
            raise TransportError(f"cannot map {nbytes} bytes of shared memory: {error}") from error

    @classmethod
    def sized(cls, fd: int, nbytes: int) -> Segment:
        """Give the file its size, then map it. Only the parent does this, once, before any worker maps it."""
        try:
            os.ftruncate(fd, nbytes)
        except OSError as error:
            raise TransportError(f"cannot reserve {nbytes} bytes of shared memory: {error}") from error
        return cls(fd, nbytes)

    def keep_from_children(self) -> None:
        """Do not map this into processes the environment forks: they could write rows they do not own."""
        if hasattr(mmap, "MADV_DONTFORK"):
            self.buffer.madvise(mmap.MADV_DONTFORK)
