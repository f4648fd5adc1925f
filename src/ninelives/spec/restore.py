"""The order to bring a slot back to where it was: how its episode began, what was done since, what was seen.

Written by the parent while no worker serves the slot, read by the worker that will. Travels by mailbox.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from ninelives.spec.call import CallRequest

BEFORE_RESET = -1
"""The step of calls that were made before the present episode began."""


@dataclass(frozen=True)
class Beginning:
    """How an episode, or the part of it that is replayed, began.

    ``state`` is a snapshot; otherwise the environment is reset with ``seed`` and ``options``, after its generator got
    the state ``rng`` if the reset had no seed. ``length`` and ``total`` are the episode's steps and return until there,
    ``over`` says that it had ended there.
    """

    seed: int | None = None
    options: Any = None
    rng: bytes | None = None
    state: bytes | None = None
    length: int = 0
    total: float = 0.0
    over: bool = False


@dataclass(frozen=True)
class Restore:
    """Begin so, make these calls, repeat these actions; every row must have the digest it had.

    Without a beginning the environment is only built anew: the slot's next request begins an episode by itself.

    ``digests`` are 32-bit words, one per row: the row before each action, and the row after the last. With a snapshot
    the first of them cannot be checked. ``calls`` are (step, request), in order.

    ``episodes`` were played by used environments: new ones must give the same rows before anything is restored.
    """

    beginning: Beginning | None
    actions: bytes = b""
    steps: int = 0
    digests: bytes = b""
    calls: Sequence[tuple[int, CallRequest]] = field(default_factory=tuple)
    episodes: tuple[Restore, ...] = ()


class Outcome(IntEnum):
    """What became of an order; the worker's word to the parent."""

    NONE = 0
    RESTORED = 1
    DIFFERS = 2
    FAILED = 3
    LATE = 4
    USED_DIFFERS = 5
