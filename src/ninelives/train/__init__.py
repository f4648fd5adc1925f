"""Training: PPO on a pool whose slots are allowed to die.

``ninelives.train.ppo(config)`` trains and returns a ``Result``. Names are imported when they are used; only what trains
imports torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOMES = {
    "ppo": ("ninelives.train.loop", "run"),
    "TrainConfig": ("ninelives.train.config", "TrainConfig"),
    "PpoConfig": ("ninelives.train.config", "PpoConfig"),
    "NetConfig": ("ninelives.train.config", "NetConfig"),
    "NormaliseConfig": ("ninelives.train.config", "NormaliseConfig"),
    "PoolConfig": ("ninelives.train.config", "PoolConfig"),
    "LogConfig": ("ninelives.train.config", "LogConfig"),
    "Callback": ("ninelives.train.callbacks", "Callback"),
    "StopTraining": ("ninelives.train.callbacks", "StopTraining"),
    "Result": ("ninelives.train.facts", "Result"),
}

__all__ = [
    "Callback",
    "LogConfig",
    "NetConfig",
    "NormaliseConfig",
    "PoolConfig",
    "PpoConfig",
    "Result",
    "StopTraining",
    "TrainConfig",
    "ppo",
]

if TYPE_CHECKING:
    from ninelives.train.callbacks import Callback, StopTraining
    from ninelives.train.config import LogConfig, NetConfig, NormaliseConfig, PoolConfig, PpoConfig, TrainConfig
    from ninelives.train.facts import Result
    from ninelives.train.loop import run as ppo


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        module, attribute = _HOMES[name]
        return getattr(importlib.import_module(module), attribute)
    raise AttributeError(f"module 'ninelives.train' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
