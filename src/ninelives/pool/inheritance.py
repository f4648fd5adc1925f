"""What a process forked from the user's program may do with the pools it inherits: nothing.

Its copy of a pool shares the workers and the memory with the original, so a step of the one would shift the rows of the
other. Pools are marked in the child when it begins, so that no call has to ask in which process it is. Must never keep
a pool alive.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Any

from ninelives.errors import UsageError

_disown: weakref.WeakKeyDictionary[Any, Callable[[Any], None]] = weakref.WeakKeyDictionary()


def disown_in_children(pool: Any, disown: Callable[[Any], None]) -> None:
    """Call ``disown(pool)`` in every process that is forked from this one. It must not hold the pool itself."""
    _disown[pool] = disown


def check_owner(owner_pid: int) -> None:
    """Refuse a call in another process than the one that made the pool.

    Raises:
        UsageError: this process inherited the pool through fork.
    """
    if os.getpid() != owner_pid:
        raise UsageError(
            f"this pool belongs to process {owner_pid}; process {os.getpid()} inherited it through fork, and its calls "
            "would shift the rows of the owner: make a new pool here, or start the process with 'spawn'"
        )


def _after_fork_in_child() -> None:
    for pool, disown in list(_disown.items()):
        disown(pool)


os.register_at_fork(after_in_child=_after_fork_in_child)
