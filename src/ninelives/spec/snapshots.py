"""What a simulator offers for snapshots: the protocols between the worker, which takes them, and ``sims``.

Types only; which stacks of wrappers can be saved is decided in ``worker.snapshots``.
"""

from __future__ import annotations

import sys
from typing import Any, Protocol


class SnapshotLayer(Protocol):
    """One layer of an environment stack whose state can be taken and put back exactly."""

    identity: str
    """What must be the same where the state is loaded."""

    def begin(self) -> None:
        """Prepare to save; called once, before the first save or load."""

    def save(self) -> Any:
        """The layer's state, as a value that pickle can carry."""

    def load(self, state: Any) -> None:
        """Put back what ``save`` returned."""


class SimulatorSupport(Protocol):
    """What Ninelives knows about the environments of one simulator package. ``env`` is always the innermost one."""

    def why_not(self, env: Any) -> str:
        """Why its state cannot be saved exactly; empty if it can."""

    def layer(self, env: Any) -> SnapshotLayer:
        """Its layer in a snapshot; only called if ``why_not`` is empty."""

    def prepare(self, env: Any) -> None:
        """Called before the first reset, where every episode is begun with a seed."""


def class_name(layer: Any) -> str:
    """The full name of an object's class."""
    return f"{type(layer).__module__}.{type(layer).__qualname__}"


def is_genuine(cls: type) -> bool:
    """Whether this class is the one that its module has under its name, not another with the same name."""
    return getattr(sys.modules.get(cls.__module__), cls.__qualname__, None) is cls
