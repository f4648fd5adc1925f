"""Ninelives: many copies of a fragile environment at once, training that goes on when they break, at full speed.

Importing it registers the games with Gymnasium (``gymnasium.make("ninelives/Errand-v0")``). Other names are imported
when they are used; ``import ninelives`` loads neither torch nor a simulator.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ninelives.sims.games.registry import register as _register_games

__version__ = "0.2.0"

_HOMES = {
    "Pool": "ninelives.pool.pool",
    "Batch": "ninelives.pool.batch",
    "PoolOptions": "ninelives.spec.options",
    "VectorEnv": "ninelives.adapters.gymnasium",
    "make_vec": "ninelives.adapters.gymnasium",
    "EnvSpec": "ninelives.spec.env",
    "Autoreset": "ninelives.spec.autoreset",
    "SlotState": "ninelives.pool.recovery.states",
    "PoolState": "ninelives.pool.recovery.checkpoint",
    "current_slot": "ninelives.spec.context",
    "episode_seed": "ninelives.spec.seeds",
    "NinelivesError": "ninelives.errors",
    "NinelivesWarning": "ninelives.errors",
    "ConfigError": "ninelives.errors",
    "UsageError": "ninelives.errors",
    "ClosedError": "ninelives.errors",
    "PendingError": "ninelives.errors",
    "NotPendingError": "ninelives.errors",
    "ActionError": "ninelives.errors",
    "WorkerError": "ninelives.errors",
    "WorkerStartError": "ninelives.errors",
    "SpacesError": "ninelives.errors",
    "WorkerCrashedError": "ninelives.errors",
    "WorkerHungError": "ninelives.errors",
    "EnvRaisedError": "ninelives.errors",
    "BadDataError": "ninelives.errors",
    "PoolExhaustedError": "ninelives.errors",
    "TransportError": "ninelives.errors",
    "CheckpointError": "ninelives.errors",
    "EmulatorError": "ninelives.errors",
    "Fault": "ninelives.errors",
}

__all__ = [
    "ActionError",
    "Autoreset",
    "BadDataError",
    "Batch",
    "CheckpointError",
    "ClosedError",
    "ConfigError",
    "EmulatorError",
    "EnvRaisedError",
    "EnvSpec",
    "Fault",
    "NinelivesError",
    "NinelivesWarning",
    "NotPendingError",
    "PendingError",
    "Pool",
    "PoolExhaustedError",
    "PoolOptions",
    "PoolState",
    "SlotState",
    "SpacesError",
    "TransportError",
    "UsageError",
    "VectorEnv",
    "WorkerCrashedError",
    "WorkerError",
    "WorkerHungError",
    "WorkerStartError",
    "__version__",
    "current_slot",
    "episode_seed",
    "make_vec",
]

if TYPE_CHECKING:
    from ninelives.adapters.gymnasium import VectorEnv, make_vec
    from ninelives.errors import (
        ActionError,
        BadDataError,
        CheckpointError,
        ClosedError,
        ConfigError,
        EmulatorError,
        EnvRaisedError,
        Fault,
        NinelivesError,
        NinelivesWarning,
        NotPendingError,
        PendingError,
        PoolExhaustedError,
        SpacesError,
        TransportError,
        UsageError,
        WorkerCrashedError,
        WorkerError,
        WorkerHungError,
        WorkerStartError,
    )
    from ninelives.pool.batch import Batch
    from ninelives.pool.pool import Pool
    from ninelives.pool.recovery.checkpoint import PoolState
    from ninelives.pool.recovery.states import SlotState
    from ninelives.spec.autoreset import Autoreset
    from ninelives.spec.context import current_slot
    from ninelives.spec.env import EnvSpec
    from ninelives.spec.options import PoolOptions
    from ninelives.spec.seeds import episode_seed


def __getattr__(name: str) -> Any:
    if name == "train":  # so that `ninelives.train.train` needs no import of its own
        return importlib.import_module("ninelives.train")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'ninelives' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


_register_games()
