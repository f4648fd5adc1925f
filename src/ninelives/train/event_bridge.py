"""Brings the pool's events to the callbacks, in the thread that trains, and keeps their exceptions out of the pool."""

from __future__ import annotations

import threading
from collections import deque

from ninelives.events import Event
from ninelives.train.callbacks import Callback


class Inbox:
    """A sink: events of the thread that made it are told at once, those of others when it looks."""

    def __init__(self, callback: Callback) -> None:
        self._callback, self._home = callback, threading.get_ident()
        self._waiting: deque[Event] = deque()
        self._error: BaseException | None = None

    def emit(self, event: Event) -> None:
        """Take one event."""
        self._waiting.append(event)
        if threading.get_ident() == self._home:
            self._tell()

    def look(self) -> None:
        """Tell what waits.

        Raises:
            BaseException: whatever a callback raised since the last look.
        """
        self._tell()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _tell(self) -> None:
        while self._waiting and self._error is None:
            try:
                self._callback.on_event(self._waiting.popleft())
            except BaseException as error:
                self._error = error
