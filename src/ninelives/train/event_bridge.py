"""Passes the pool's events to the callbacks, in the training thread.

An exception of a callback must never enter the pool.
"""

from __future__ import annotations

import threading
from collections import deque

from ninelives.events import Event
from ninelives.train.callbacks import Callback


class EventBridge:
    """A sink: passes on events of the thread that created it at once, and those of other threads in ``deliver``."""

    def __init__(self, callback: Callback) -> None:
        self._callback, self._home = callback, threading.get_ident()
        self._waiting: deque[Event] = deque()
        self._error: BaseException | None = None

    def emit(self, event: Event) -> None:
        """Receive one event."""
        self._waiting.append(event)
        if threading.get_ident() == self._home:
            self._pass_on()

    def deliver(self) -> None:
        """Pass on all waiting events.

        Raises:
            BaseException: what a callback raised since the last call.
        """
        self._pass_on()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _pass_on(self) -> None:
        while self._waiting and self._error is None:
            try:
                self._callback.on_event(self._waiting.popleft())
            except BaseException as error:
                self._error = error
