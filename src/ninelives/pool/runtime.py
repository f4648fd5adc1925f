"""A pool that is up, as its parts see it: the plan, the exchange, the shared arrays, the resources below them.

One object travels instead of its pieces. Holds references only; decides and does nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from ninelives.clock import Clock
from ninelives.pool.eventlog import EventLog
from ninelives.pool.resources import Resources
from ninelives.spec.data import DataSpec
from ninelives.spec.options import PoolOptions
from ninelives.spec.plan import Plan
from ninelives.transport.control import Control
from ninelives.transport.exchange import Caller
from ninelives.transport.mailbox import Mailbox


@dataclass(frozen=True)
class Runtime:
    """What every part of a running pool may need.

    Attributes:
        plan: which worker serves which slots, in which groups.
        caller: requests out, answers in.
        data: what the slab holds.
        arrays: the slab's arrays by name.
        resources: memory, processes, directory and log.
    """

    plan: Plan
    caller: Caller
    data: DataSpec
    arrays: Mapping[str, npt.NDArray[Any]]
    resources: Resources

    @property
    def control(self) -> Control:
        """The control words."""
        return self.resources.memory.control

    @property
    def mail(self) -> Mailbox:
        """Messages that are no numbers."""
        return self.resources.memory.mail

    @property
    def clock(self) -> Clock:
        """Monotonic time."""
        return self.resources.clock

    @property
    def options(self) -> PoolOptions:
        """The pool's settings."""
        return self.resources.options

    @property
    def log(self) -> EventLog:
        """Where events go."""
        return self.resources.log
