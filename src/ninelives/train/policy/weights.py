"""Weights as one flat vector, and how a learner publishes them to actors: two buffers and a version, no lock.

The writer fills the buffer that is not published, then publishes it by writing its version. A reader copies a buffer,
then checks whether it was overwritten meanwhile, and copies again if so. Neither ever waits for the other, and a writer
that dies leaves the last published version readable. Must never depend on what the numbers mean.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn


class FlatWeights:
    """All parameters of a network as views into one vector, and their gradients into another.

    Norms, optimiser steps and copies are then one operation each, whatever the network's shape.
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
        """Set all weights to these numbers."""
        source = torch.from_numpy(numbers) if isinstance(numbers, np.ndarray) else numbers
        self.values.data.copy_(source)


class PublishedWeights:
    """The newest weights of one writer, for any number of readers.

    Args:
        size: length of the vector.
        memory: ``nbytes(size)`` bytes that start with zeros, such as shared memory; None: memory of this process.
    """

    def __init__(self, size: int, memory: Any = None) -> None:
        buffer = np.zeros(self.nbytes(size), np.uint8) if memory is None else np.frombuffer(memory, np.uint8)
        # The newest complete version, and for each buffer the version whose writing was started last.
        self._newest = buffer[:8].view(np.int64)
        self._started = buffer[8:24].view(np.int64)
        self._buffers = buffer[64 : 64 + 8 * size].view(np.float32).reshape(2, size)

    @staticmethod
    def nbytes(size: int) -> int:
        """Bytes of both buffers and their versions."""
        return 64 + 8 * size

    @property
    def version(self) -> int:
        """The newest published version; 0 before the first."""
        return int(self._newest[0])

    def publish(self, numbers: npt.NDArray[np.float32]) -> int:
        """Publish these weights; returns their version."""
        version = self.version + 1
        idle = version % 2
        self._started[idle] = version
        self._buffers[idle] = numbers
        self._newest[0] = version
        return version

    def read(self, into: npt.NDArray[np.float32]) -> int:
        """Copy the newest weights and return their version; never a mixture of two.

        Raises:
            LookupError: nothing has been published yet.
        """
        while True:
            version = self.version
            if version == 0:
                raise LookupError("no weights have been published yet")
            buffer = version % 2
            into[:] = self._buffers[buffer]
            if self._started[buffer] == version:
                return version
