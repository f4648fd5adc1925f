"""Training: PPO on a pool whose slots are allowed to die.

``rookery.train.ppo(config)`` trains and returns a ``Result``. Names are imported when they are used; only what trains
imports torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOMES = {
    "ppo": ("rookery.train.loop", "run"),
    "TrainConfig": ("rookery.train.config", "TrainConfig"),
    "PpoConfig": ("rookery.train.config", "PpoConfig"),
    "NetConfig": ("rookery.train.config", "NetConfig"),
    "NormaliseConfig": ("rookery.train.config", "NormaliseConfig"),
    "PoolConfig": ("rookery.train.config", "PoolConfig"),
    "LogConfig": ("rookery.train.config", "LogConfig"),
    "Callback": ("rookery.train.callbacks", "Callback"),
    "StopTraining": ("rookery.train.callbacks", "StopTraining"),
    "Result": ("rookery.train.facts", "Result"),
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
    from rookery.train.callbacks import Callback, StopTraining
    from rookery.train.config import LogConfig, NetConfig, NormaliseConfig, PoolConfig, PpoConfig, TrainConfig
    from rookery.train.facts import Result
    from rookery.train.loop import run as ppo


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        module, attribute = _HOMES[name]
        return getattr(importlib.import_module(module), attribute)
    raise AttributeError(f"module 'rookery.train' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
