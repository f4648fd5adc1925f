"""What an environment may ask about its own place: ``ninelives.current_slot()`` inside a constructor.

Set by the worker around every construction, so that a factory can name its files, ports or logs by slot without an
argument. Outside a worker there is no slot.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ninelives.errors import UsageError


@dataclass(frozen=True)
class SlotContext:
    """A slot's private place.

    Attributes:
        slot: row of this environment in every batch.
        generation: how many times the slot's worker has been started.
        scratch: a directory of this slot alone, empty at construction, removed with the slot.
        launch_dir: the directory the user's program runs in (a worker's own working directory is its scratch).
        episodes: how many episodes the slot has begun before; 0 for its first environment, and for one that replaces
            an environment which was only measured.
    """

    slot: int
    generation: int
    scratch: Path
    launch_dir: Path
    episodes: int = 0


_current: SlotContext | None = None


def current_slot() -> SlotContext:
    """The slot that is being constructed in this process.

    Raises:
        UsageError: outside a worker.
    """
    if _current is None:
        raise UsageError("current_slot() works only while a Ninelives worker constructs an environment")
    return _current


def enter_slot(context: SlotContext | None) -> None:
    """Say which slot is under construction; called by the worker only."""
    global _current
    _current = context
