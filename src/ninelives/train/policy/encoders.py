"""From observations to features: one encoder per leaf of the observation space, concatenated.

=================  ====================================================================================
Box, an image      ``nature``, ``impala`` or ``small`` convolutions; uint8 is divided by 255
Box, other         flattened; uint8 is divided by 255
Discrete           one-hot
MultiDiscrete      one-hot for each part
MultiBinary        as numbers
Dict, Tuple        all their leaves, concatenated in order
=================  ====================================================================================

Must never know about actions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional

from ninelives.errors import ConfigError
from ninelives.train.config.classes import NetConfig

NATURE_LEAST = 36
"""Smallest side of an image that the three convolutions of ``nature`` can process."""

IMAGE_LEAST = 16
"""Smallest side of a two-dimensional uint8 Box that is treated as an image rather than a table."""


def leaf_spaces(space: spaces.Space[Any], path: str = "") -> Iterator[tuple[str, spaces.Space[Any]]]:
    """The space's leaves in the order of ``spec.arrays.leaves``, each with its path for messages."""
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            yield from leaf_spaces(part, f"{path}/{key}")
    elif isinstance(space, spaces.Tuple):
        for index, part in enumerate(space.spaces):
            yield from leaf_spaces(part, f"{path}/{index}")
    else:
        yield path or ".", space


def stored_dtype(space: spaces.Space[Any]) -> torch.dtype:
    """Floats as float32; 8-bit integers as they are, because images are large; other integers as int64."""
    kind = np.dtype(space.dtype)
    if kind.kind == "f":
        return torch.float32
    small = {"uint8": torch.uint8, "int8": torch.int8, "bool": torch.bool}
    return small.get(kind.name, torch.int64)


def is_image(space: spaces.Space[Any]) -> bool:
    """Whether convolutions apply."""
    if not isinstance(space, spaces.Box):
        return False
    rank = len(space.shape)
    return rank in (3, 4) or (rank == 2 and space.dtype == np.uint8 and min(space.shape) >= IMAGE_LEAST)


class Encoder(nn.Module):
    """Turns all leaves of an observation into one row of ``size`` features.

    Attributes:
        size: number of features.
        is_plain: the observation is a vector of floats and is used as it is; nothing is computed.
        has_image: whether any leaf goes through convolutions.
    """

    def __init__(self, space: spaces.Space[Any], config: NetConfig) -> None:
        super().__init__()
        found = list(leaf_spaces(space))
        if not found:
            raise ConfigError(f"the observation space {space} is empty; PPO needs at least one leaf")
        parts = [_part(name, leaf, config) for name, leaf in found]
        self._parts = nn.ModuleList(parts)
        self.size = sum(part.size for part in parts)
        only = found[0][1]
        self.is_plain = (
            len(found) == 1 and isinstance(only, spaces.Box) and only.dtype.kind == "f" and len(only.shape) == 1
        )
        self.has_image = any(isinstance(part, ImagePart) for part in self._parts)

    def forward(self, leaves: tuple[Tensor, ...]) -> Tensor:
        """Rows of features."""
        if self.is_plain:
            return leaves[0]
        if len(leaves) == 1:
            features: Tensor = self._parts[0](leaves[0])
            return features
        return torch.cat([part(leaf) for part, leaf in zip(self._parts, leaves, strict=True)], -1)


class VectorPart(nn.Module):
    """Numbers, flattened."""

    def __init__(self, shape: tuple[int, ...], scale: float) -> None:
        super().__init__()
        self.size, self._scale = math.prod(shape), scale

    def forward(self, leaf: Tensor) -> Tensor:
        """Rows of numbers."""
        flat = leaf.reshape(leaf.shape[0], self.size).float()
        return flat if self._scale == 1.0 else flat * self._scale


class OneHotPart(nn.Module):
    """Integers as one-hot rows."""

    start: Tensor

    def __init__(self, start: list[int], sizes: list[int]) -> None:
        super().__init__()
        self.size, self._sizes = sum(sizes), sizes
        self.register_buffer("start", torch.tensor(start), persistent=False)

    def forward(self, leaf: Tensor) -> Tensor:
        """Rows of zeros and ones."""
        columns = (leaf.reshape(leaf.shape[0], len(self._sizes)).long() - self.start).unbind(1)
        hot = [functional.one_hot(column, size) for column, size in zip(columns, self._sizes, strict=True)]
        return torch.cat(hot, -1).float()


class ImagePart(nn.Module):
    """Images through convolutions and one linear layer."""

    def __init__(self, name: str, space: spaces.Box, config: NetConfig) -> None:
        super().__init__()
        self._order, channels, height, width = layout(space.shape)
        self._scale = 1 / 255 if space.dtype == np.uint8 else 1.0
        kind = config.image
        if kind == "auto":
            kind = "nature" if min(height, width) >= NATURE_LEAST else "small"
        if kind == "nature" and min(height, width) < NATURE_LEAST:
            raise ConfigError(
                f"net.image='nature' needs images of at least {NATURE_LEAST} x {NATURE_LEAST} pixels, but the "
                f"observation {name} has {height} x {width}; use 'small' or 'impala'"
            )
        self._shape = (channels, height, width)
        self._convolve = CONVOLUTIONS[kind](channels)
        with torch.no_grad():
            outputs = self._convolve(torch.zeros(1, channels, height, width)).numel()
        self._join, self.size = nn.Linear(outputs, config.image_features), config.image_features

    def forward(self, leaf: Tensor) -> Tensor:
        """Rows of features."""
        image = leaf.float() if self._scale == 1.0 else leaf.float().mul_(self._scale)
        image = image.permute(self._order).reshape(leaf.shape[0], *self._shape)
        return functional.relu(self._join(self._convolve(image).flatten(1)))


def layout(shape: tuple[int, ...]) -> tuple[tuple[int, ...], int, int, int]:
    """The permutation that puts channels first, then channels, height and width."""
    if len(shape) == 2:
        return (0, 1, 2), 1, shape[0], shape[1]
    if len(shape) == 3:
        if shape[0] < shape[2]:
            return (0, 1, 2, 3), shape[0], shape[1], shape[2]
        return (0, 3, 1, 2), shape[2], shape[0], shape[1]
    if shape[1] < shape[3]:  # frames, channels, height, width
        return (0, 1, 2, 3, 4), shape[0] * shape[1], shape[2], shape[3]
    return (0, 1, 4, 2, 3), shape[0] * shape[3], shape[1], shape[2]


def nature(channels: int) -> nn.Module:
    """Three convolutions, as in the Nature paper on DQN."""
    return nn.Sequential(
        nn.Conv2d(channels, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU()
    )  # fmt: skip


def small(channels: int) -> nn.Module:
    """Two convolutions for images of a few dozen pixels a side."""
    return nn.Sequential(nn.Conv2d(channels, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU())


class Residual(nn.Module):
    """Two convolutions with a skip connection."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self._first = nn.Conv2d(channels, channels, 3, padding=1)
        self._second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, image: Tensor) -> Tensor:
        """The input plus the convolutions' output."""
        found: Tensor = self._second(functional.relu(self._first(functional.relu(image))))
        return image + found


def impala(channels: int) -> nn.Module:
    """The residual network of IMPALA: three blocks of 16, 32 and 32 channels."""
    layers: list[nn.Module] = []
    for out in (16, 32, 32):
        layers += [nn.Conv2d(channels, out, 3, padding=1), nn.MaxPool2d(3, 2, padding=1), Residual(out), Residual(out)]
        channels = out
    return nn.Sequential(*layers, nn.ReLU())


CONVOLUTIONS: dict[str, Callable[[int], nn.Module]] = {"nature": nature, "small": small, "impala": impala}


def _part(name: str, space: spaces.Space[Any], config: NetConfig) -> VectorPart | OneHotPart | ImagePart:
    if is_image(space) and config.image != "flat":
        assert isinstance(space, spaces.Box)
        return ImagePart(name, space, config)
    if isinstance(space, spaces.Box):
        return VectorPart(space.shape, 1 / 255 if space.dtype == np.uint8 else 1.0)
    if isinstance(space, spaces.Discrete):
        return OneHotPart([int(space.start)], [int(space.n)])
    if isinstance(space, spaces.MultiDiscrete):
        return OneHotPart(space.start.reshape(-1).tolist(), space.nvec.reshape(-1).tolist())
    if isinstance(space, spaces.MultiBinary):
        return VectorPart(tuple(space.shape), 1.0)
    raise ConfigError(
        f"the observation {name} of space {space} is not supported; allowed: Box, Discrete, MultiDiscrete, "
        "MultiBinary, and Dict or Tuple of these. Wrap the environment so that it returns one of these"
    )
