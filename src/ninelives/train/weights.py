"""Weights as one flat vector, and their way from whoever learns to whoever acts: two buffers and a version, no lock.

The writer fills the buffer that nobody is told of, then publishes it by one number. A reader copies, then looks whether
the buffer it copied was overwritten meanwhile, and copies again if so. Neither ever waits for the other, and a writer
that dies leaves the last published version readable. Must never know what the numbers mean.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn


class FlatWeights:
    """All parameters of a network as views into one vector, and their gradients into another.

    Norms, optimiser steps and copies are then one operation each, whatever the network looks like.
    """

    def __init__(self, network: nn.Module) -> None:
        parameters = list(network.parameters())
        total = sum(parameter.numel() for parameter in parameters)
        device = parameters[0].device
        self.values = nn.Parameter(torch.empty(total, device=device))
        self.gradients = torch.zeros(total, device=device)
        self.values.grad = self.gradients
        at = 0
        for parameter in parameters:
            part = slice(at, at + parameter.numel())
            self.values.data[part].copy_(parameter.data.reshape(-1))
            parameter.data = self.values.data[part].view(parameter.shape)
            parameter.grad = self.gradients[part].view(parameter.shape)
            at += parameter.numel()

    def __len__(self) -> int:
        return self.values.numel()

    def copy_from(self, numbers: npt.NDArray[np.float32] | Tensor) -> None:
        """Take these weights."""
        source = torch.from_numpy(numbers) if isinstance(numbers, np.ndarray) else numbers
        self.values.data.copy_(source)


class Published:
    """One writer's newest vector for any number of readers.

    Args:
        size: length of the vector.
        memory: where it lives, ``nbytes(size)`` bytes that start with zeros; None: in this process.
    """

    def __init__(self, size: int, memory: Any = None) -> None:
        buffer = np.zeros(self.nbytes(size), np.uint8) if memory is None else np.frombuffer(memory, np.uint8)
        # The newest version that is complete, and for each buffer the version that was last begun to be written there.
        self._newest = buffer[:8].view(np.int64)
        self._begun = buffer[8:24].view(np.int64)
        self._buffers = buffer[64 : 64 + 8 * size].view(np.float32).reshape(2, size)

    @staticmethod
    def nbytes(size: int) -> int:
        """Bytes that two buffers and their numbers need."""
        return 64 + 8 * size

    @property
    def version(self) -> int:
        """The newest published version; 0: none yet."""
        return int(self._newest[0])

    def publish(self, numbers: npt.NDArray[np.float32]) -> int:
        """Make this the newest version; returns its number."""
        version = self.version + 1
        idle = version % 2
        self._begun[idle] = version
        self._buffers[idle] = numbers
        self._newest[0] = version
        return version

    def read(self, into: npt.NDArray[np.float32]) -> int:
        """Copy the newest version; returns its number. Never a mixture of two.

        Raises:
            LookupError: nothing was published yet.
        """
        while True:
            version = self.version
            if version == 0:
                raise LookupError("no weights were published yet")
            buffer = version % 2
            into[:] = self._buffers[buffer]
            if self._begun[buffer] == version:
                return version
