"""Small numbers that parent and workers share: phases, operations, statuses, attention bits.

The native loop knows the same numbers; ``bell.h`` and ``worker/_loop.c`` name them again in C.
"""

from __future__ import annotations

from enum import IntEnum


class Phase(IntEnum):
    """What a worker is doing, stamped by the loop that does it."""

    IDLE = 0
    IMPORT = 1
    CONSTRUCT = 2
    RESET = 3
    STEP = 4
    CALL = 5
    RESTORE = 6
    CLOSE = 7


class Stage(IntEnum):
    """How far a worker's start has come."""

    NONE = 0
    HELLO = 1
    READY = 2
    FAILED = 3


class Op(IntEnum):
    """What the parent asks of one slot in a request."""

    NONE = 0
    STEP = 1
    RESET = 2
    CALL = 3


class Status(IntEnum):
    """How a slot answered. ``UNDONE`` is the parent's word: the answer was a failure, and its worker died after it."""

    OK = 0
    RAISED = 1
    BAD_DATA = 2
    NOT_RESTORED = 3
    UNDONE = 4


class Attention:
    """Why the parent must look closer at a group's answer; zero means the fast path is enough.

    Plain numbers: the operators of an ``IntFlag`` would cost more than the rest of a batch.
    """

    NONE = 0
    MAIL = 1
    ENDED = 2
    FAULT = 4
    STATE = 8
    INFO = 16
