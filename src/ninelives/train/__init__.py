"""Training: PPO on a pool whose slots are allowed to die.

``ninelives.train.train(config)`` trains and returns a ``Result``. Names are imported when they are first
used, so that reading a configuration does not import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOMES = {
    "train": ("ninelives.train.run", "train"),
    "TrainConfig": ("ninelives.train.config.classes", "TrainConfig"),
    "PpoConfig": ("ninelives.train.config.classes", "PpoConfig"),
    "NetConfig": ("ninelives.train.config.classes", "NetConfig"),
    "NormaliseConfig": ("ninelives.train.config.classes", "NormaliseConfig"),
    "PoolConfig": ("ninelives.train.config.classes", "PoolConfig"),
    "LogConfig": ("ninelives.train.config.classes", "LogConfig"),
    "Callback": ("ninelives.train.callbacks", "Callback"),
    "StopTraining": ("ninelives.train.callbacks", "StopTraining"),
    "Result": ("ninelives.train.records", "Result"),
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
    "train",
]

if TYPE_CHECKING:
    from ninelives.train.callbacks import Callback, StopTraining
    from ninelives.train.config.classes import LogConfig, NetConfig, NormaliseConfig, PoolConfig, PpoConfig, TrainConfig
    from ninelives.train.records import Result
    from ninelives.train.run import train


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        module, attribute = _HOMES[name]
        return getattr(importlib.import_module(module), attribute)
    raise AttributeError(f"module 'ninelives.train' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
