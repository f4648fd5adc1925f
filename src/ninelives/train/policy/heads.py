"""From the actor's outputs to actions: one head, a probability distribution, per kind of action space.

Actions are sampled with noise that is drawn beforehand for each slot and step, so that a slot's action depends neither
on the other slots of its batch nor on a global generator. Must never see an observation.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional

from ninelives.errors import ConfigError

ACTION_MASK = "action_mask"
"""The info by which an environment says which actions are allowed."""

FORBIDDEN = -1e8
"""Logit of an action that a mask forbids: its probability and gradient are exactly zero, and nothing becomes NaN."""

HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


class Head(nn.Module, abc.ABC):
    """Turns rows of ``outputs`` distribution parameters into actions of ``shape`` and ``dtype``.

    Attributes:
        mask_size: entries of an action mask's row; 0 where actions cannot be masked.
    """

    outputs: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    mask_size: int = 0

    @abc.abstractmethod
    def noise(self, rows: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """The noise that ``sample`` needs for this many rows."""

    @abc.abstractmethod
    def sample(self, params: Tensor, noise: Tensor) -> Tensor:
        """Actions sampled with this noise."""

    @abc.abstractmethod
    def greedy(self, params: Tensor) -> Tensor:
        """The most likely actions."""

    @abc.abstractmethod
    def log_prob(self, params: Tensor, actions: Tensor) -> Tensor:
        """Log-probabilities of these actions."""

    @abc.abstractmethod
    def log_prob_and_entropy(self, params: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities of these actions, and the entropies of their distributions."""

    def masked(self, params: Tensor, mask: Tensor) -> Tensor:
        """The parameters with forbidden actions made impossible."""
        return params.masked_fill(~mask, FORBIDDEN)

    def to_env(self, actions: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The actions as the environment expects them."""
        return actions

    def mask_row(self, mask: Any) -> Any:
        """One row of ``info["action_mask"]`` as ``masked`` expects it."""
        return mask


class DiscreteHead(Head):
    """A Discrete space: one of n actions."""

    def __init__(self, space: spaces.Discrete) -> None:
        super().__init__()
        self.outputs = self.mask_size = int(space.n)
        self.shape, self.dtype, self._start = (), torch.int64, int(space.start)

    def noise(self, rows: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Gumbel noise: the argmax of logits plus noise is a sample."""
        return torch.empty(*rows, self.outputs).exponential_(generator=generator).log_().neg_()

    def sample(self, params: Tensor, noise: Tensor) -> Tensor:
        """Actions sampled with this noise."""
        return torch.argmax(params + noise, -1)

    def greedy(self, params: Tensor) -> Tensor:
        """The most likely actions."""
        return torch.argmax(params, -1)

    def log_prob(self, params: Tensor, actions: Tensor) -> Tensor:
        """Log-probabilities of these actions."""
        return functional.log_softmax(params, -1).gather(-1, actions.unsqueeze(-1)).squeeze(-1)

    def log_prob_and_entropy(self, params: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities of these actions, and the entropies of their distributions."""
        logs = functional.log_softmax(params, -1)
        return logs.gather(-1, actions.unsqueeze(-1)).squeeze(-1), -(logs.exp() * logs).sum(-1)

    def to_env(self, actions: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Shifted by the space's ``start``."""
        return actions + self._start if self._start else actions


class MultiDiscreteHead(Head):
    """A MultiDiscrete space: k choices at once, computed as k rows of equal width with unused columns forbidden."""

    unused: Tensor

    def __init__(self, space: spaces.MultiDiscrete) -> None:
        super().__init__()
        sizes = space.nvec.reshape(-1)
        self.shape, self.dtype = space.nvec.shape, torch.int64
        self._parts, self._width, self._start = len(sizes), int(sizes.max()), space.start
        self.outputs, self.mask_size = self._parts * self._width, self._parts * self._width
        used = np.arange(self._width) < sizes[:, None]
        self._used = np.flatnonzero(used)
        self.register_buffer("unused", torch.from_numpy(np.where(used, 0.0, FORBIDDEN)).float(), persistent=False)

    def noise(self, rows: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Gumbel noise."""
        return torch.empty(*rows, self.outputs).exponential_(generator=generator).log_().neg_()

    def sample(self, params: Tensor, noise: Tensor) -> Tensor:
        """Actions sampled with this noise."""
        return self.greedy(params + noise)

    def greedy(self, params: Tensor) -> Tensor:
        """The most likely actions."""
        return torch.argmax(self._rows(params), -1).view(*params.shape[:-1], *self.shape)

    def log_prob(self, params: Tensor, actions: Tensor) -> Tensor:
        """Log-probabilities of these actions, summed over the parts."""
        return self.log_prob_and_entropy(params, actions)[0]

    def log_prob_and_entropy(self, params: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities of these actions, and entropies, summed over the parts."""
        logs = functional.log_softmax(self._rows(params), -1)
        chosen = actions.reshape(*params.shape[:-1], self._parts, 1)
        return logs.gather(-1, chosen).squeeze(-1).sum(-1), -(logs.exp() * logs).sum((-1, -2))

    def to_env(self, actions: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Shifted by the space's ``start``."""
        return actions + self._start

    def mask_row(self, mask: Any) -> Any:
        """A mask covers all choices of all parts; unused columns are set here because ``_rows`` forbids them anyway."""
        wide = np.ones(self.mask_size, np.bool_)
        wide[self._used] = np.asarray(mask).reshape(-1)
        return wide

    def _rows(self, params: Tensor) -> Tensor:
        return params.view(*params.shape[:-1], self._parts, self._width) + self.unused


class MultiBinaryHead(Head):
    """A MultiBinary space: n buttons, each pressed or not."""

    def __init__(self, space: spaces.MultiBinary) -> None:
        super().__init__()
        self.shape, self.dtype = tuple(space.shape), torch.int8
        self.outputs = self.mask_size = math.prod(self.shape)

    def noise(self, rows: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Logistic noise: a button is pressed where its logit plus noise is positive."""
        return torch.logit(torch.rand(*rows, self.outputs, generator=generator), eps=1e-7)

    def sample(self, params: Tensor, noise: Tensor) -> Tensor:
        """Actions sampled with this noise."""
        return self.greedy(params + noise)

    def greedy(self, params: Tensor) -> Tensor:
        """The most likely actions."""
        return (params > 0).to(self.dtype).view(*params.shape[:-1], *self.shape)

    def log_prob(self, params: Tensor, actions: Tensor) -> Tensor:
        """Log-probabilities of these actions, summed over the buttons."""
        signs = actions.reshape(params.shape).to(params.dtype).mul(2).sub(1)
        return functional.logsigmoid(signs * params).sum(-1)

    def log_prob_and_entropy(self, params: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities of these actions, and entropies, summed over the buttons."""
        entropy = functional.softplus(params) - params * torch.sigmoid(params)
        return self.log_prob(params, actions), entropy.sum(-1)


class BoxHead(Head):
    """A Box: a normal distribution, with a mean per row and a learned standard deviation per dimension."""

    def __init__(self, space: spaces.Box, log_std: float, clip: bool) -> None:
        super().__init__()
        self.shape, self.dtype, self._env_dtype = tuple(space.shape), torch.float32, space.dtype
        self.outputs = math.prod(self.shape)
        self.log_std = nn.Parameter(torch.full((self.outputs,), log_std))
        self._bounds = (
            (space.low, space.high) if clip and (space.is_bounded("below") or space.is_bounded("above")) else None
        )

    def noise(self, rows: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Normal noise."""
        return torch.randn(*rows, self.outputs, generator=generator)

    def sample(self, params: Tensor, noise: Tensor) -> Tensor:
        """Actions sampled with this noise."""
        return (params + noise * self.log_std.exp()).view(*params.shape[:-1], *self.shape)

    def greedy(self, params: Tensor) -> Tensor:
        """The means."""
        return params.reshape(*params.shape[:-1], *self.shape)

    def log_prob(self, params: Tensor, actions: Tensor) -> Tensor:
        """Of these actions, all dimensions together."""
        scaled = (actions.reshape(params.shape) - params) * torch.exp(-self.log_std)
        return -(0.5 * scaled * scaled + self.log_std + HALF_LOG_TAU).sum(-1)

    def log_prob_and_entropy(self, params: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities of these actions, and entropies, summed over the dimensions."""
        entropy = (self.log_std + 0.5 + HALF_LOG_TAU).sum()
        return self.log_prob(params, actions), entropy.expand(params.shape[:-1])

    def to_env(self, actions: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Clipped to the space's bounds, if so configured."""
        if self._bounds is not None:
            actions = np.clip(actions, *self._bounds)
        return actions.astype(self._env_dtype, copy=False)


def make_head(space: spaces.Space[Any], log_std: float = 0.0, clip: bool = True) -> Head:
    """The head of an action space.

    Raises:
        ConfigError: there is no head for this kind of space.
    """
    if isinstance(space, spaces.Discrete):
        return DiscreteHead(space)
    if isinstance(space, spaces.MultiDiscrete):
        return MultiDiscreteHead(space)
    if isinstance(space, spaces.MultiBinary):
        return MultiBinaryHead(space)
    if isinstance(space, spaces.Box):
        return BoxHead(space, log_std, clip)
    raise ConfigError(
        f"PPO cannot act in the action space {space}; allowed: Discrete, MultiDiscrete, MultiBinary and Box. Wrap the "
        "environment so that its action is one of these"
    )


def write_masks(head: Head, into: npt.NDArray[np.bool_], rows: Sequence[int], infos: Mapping[str, Any]) -> None:
    """Write the action masks of these infos into ``into``, each at its row; a row without a mask stays as it is."""
    for row in np.flatnonzero(infos[f"_{ACTION_MASK}"]).tolist():
        into[rows[row]] = head.mask_row(infos[ACTION_MASK][row])
