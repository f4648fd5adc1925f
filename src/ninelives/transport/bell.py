"""A doorbell: something to sleep on until another process rings. An eventfd, or a pipe where there is none.

Who sleeps says so in shared memory first (see ``bell.h`` for why no ring is ever lost), so a ring costs a system call
only when the other side sleeps.
"""

from __future__ import annotations

import os
import select

from ninelives.host import above_standard


class Bell:
    """Two descriptors, one to wait on and one to ring; the same one twice for an eventfd."""

    def __init__(self, wait_fd: int, ring_fd: int) -> None:
        self.wait_fd = wait_fd
        self.ring_fd = ring_fd

    @classmethod
    def create(cls) -> Bell:
        """A new bell, not inherited over exec unless passed on by number."""
        if hasattr(os, "eventfd"):
            fd = above_standard(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
            return cls(fd, fd)
        wait_fd, ring_fd = map(above_standard, os.pipe())
        os.set_blocking(wait_fd, False)
        os.set_blocking(ring_fd, False)
        return cls(wait_fd, ring_fd)

    def ring(self) -> None:
        """Wake the process that waits; never blocks."""
        try:
            os.write(self.ring_fd, b"\1\0\0\0\0\0\0\0")
        except BlockingIOError:
            pass  # a full pipe already rings

    def wait(self, timeout_s: float | None, also: int = -1) -> None:
        """Sleep until rung, until the time is over, or until the descriptor ``also`` has news."""
        poller = select.poll()
        poller.register(self.wait_fd, select.POLLIN)
        if also >= 0:
            poller.register(also, select.POLLIN)
        ready = poller.poll(None if timeout_s is None else timeout_s * 1000)
        if any(fd == self.wait_fd for fd, _ in ready):
            try:
                os.read(self.wait_fd, 512)
            except BlockingIOError:
                pass

    def close(self) -> None:
        """Close both ends."""
        for fd in {self.wait_fd, self.ring_fd}:
            os.close(fd)
