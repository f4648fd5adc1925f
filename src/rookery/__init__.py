"""Rookery: many copies of a fragile environment at once, training that goes on when they break, at full speed.

Names are imported when they are used; ``import rookery`` loads neither torch nor a simulator.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "Pool": "rookery.pool.pool",
    "Batch": "rookery.pool.batch",
    "PoolOptions": "rookery.spec.options",
    "VectorEnv": "rookery.adapters.vector_env",
    "make_vec": "rookery.adapters.vector_env",
    "EnvSpec": "rookery.spec.env",
    "Autoreset": "rookery.spec.autoreset",
    "SlotState": "rookery.pool.states",
    "PoolState": "rookery.pool.checkpoint",
    "current_slot": "rookery.spec.context",
    "episode_seed": "rookery.spec.seeds",
    "RookeryError": "rookery.errors",
    "RookeryWarning": "rookery.errors",
    "ConfigError": "rookery.errors",
    "UsageError": "rookery.errors",
    "ClosedError": "rookery.errors",
    "WorkerError": "rookery.errors",
    "WorkerStartError": "rookery.errors",
    "WorkerCrashedError": "rookery.errors",
    "WorkerHungError": "rookery.errors",
    "EnvRaisedError": "rookery.errors",
    "BadDataError": "rookery.errors",
    "PoolExhaustedError": "rookery.errors",
    "TransportError": "rookery.errors",
    "CheckpointError": "rookery.errors",
    "EmulatorError": "rookery.errors",
    "Fault": "rookery.errors",
}

__all__ = [
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
    "Pool",
    "PoolExhaustedError",
    "PoolOptions",
    "PoolState",
    "RookeryError",
    "RookeryWarning",
    "SlotState",
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
    from rookery.adapters.vector_env import VectorEnv, make_vec
    from rookery.errors import (
        BadDataError,
        CheckpointError,
        ClosedError,
        ConfigError,
        EmulatorError,
        EnvRaisedError,
        Fault,
        PoolExhaustedError,
        RookeryError,
        RookeryWarning,
        TransportError,
        UsageError,
        WorkerCrashedError,
        WorkerError,
        WorkerHungError,
        WorkerStartError,
    )
    from rookery.pool.batch import Batch
    from rookery.pool.checkpoint import PoolState
    from rookery.pool.pool import Pool
    from rookery.pool.states import SlotState
    from rookery.spec.autoreset import Autoreset
    from rookery.spec.context import current_slot
    from rookery.spec.env import EnvSpec
    from rookery.spec.options import PoolOptions
    from rookery.spec.seeds import episode_seed


def __getattr__(name: str) -> Any:
    if name == "train":  # so that `rookery.train.ppo` needs no import of its own
        return importlib.import_module("rookery.train")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'rookery' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
