"""Spares: processes whose environments are built and that wait for a worker to die.

A role (worker 3, spare 0) and the process that plays it are two things: replacing a worker by a spare exchanges the
processes of two roles, with everything that is known of them. Nothing in shared memory moves.
"""

from __future__ import annotations

from collections.abc import Iterable

from ninelives.pool.workers.worker import Member
from ninelives.spec.phase import Stage
from ninelives.supervise.machine import WorkerState

PROCESS = ("line", "machine", "pid", "stage", "phase", "spawned_ns", "ready_ns", "log_from")
"""What belongs to the process rather than to the role."""


def swap(one: Member, other: Member) -> None:
    """Each plays the other's role from now on."""
    for name in PROCESS:
        mine, theirs = getattr(one, name), getattr(other, name)
        setattr(one, name, theirs)
        setattr(other, name, mine)


def waiting(spares: Iterable[Member]) -> Member | None:
    """A spare whose environments are built."""
    for spare in spares:
        if spare.stage is Stage.HELLO and spare.machine.state is WorkerState.STARTING and spare.pid is not None:
            return spare
    return None
