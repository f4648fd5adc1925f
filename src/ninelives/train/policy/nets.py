"""The network: encoder, recurrent core, actor and critic, with initial weights from one explicit generator.

::

    observation ─▶ encoder ─▶ (recurrent) ─▶ features ─┬▶ actor ─▶ parameters of the action distribution
                                                       └▶ critic ─▶ value

Actor and critic have their own hidden layers and share everything before them. For a plain vector observation there is
nothing to share, so they are two separate networks. Must never act on an environment, nor learn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional

from ninelives.train.config.classes import NetConfig
from ninelives.train.policy.encoders import Encoder, leaf_spaces, stored_dtype
from ninelives.train.policy.heads import BoxHead, make_head

HIDDEN = (64, 64)
"""Default hidden layers of actor and critic for observations without an image."""


class Policy(nn.Module):
    """Actor and critic for one pair of spaces."""

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        config: NetConfig,
        generator: torch.Generator,
        *,
        clip_actions: bool = True,
    ) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):  # layers initialise themselves from the global generator
            self.encoder = Encoder(observation_space, config)
            self._leaves = [(leaf.shape or (), stored_dtype(leaf)) for _, leaf in leaf_spaces(observation_space)]
            self.head = make_head(action_space, config.log_std, clip_actions)
            size = self.encoder.size
            self.recurrent = RecurrentCore(size, config) if config.recurrent != "none" else None
            size = self.recurrent.size if self.recurrent is not None else size
            default = () if self.encoder.has_image or self.recurrent is not None else HIDDEN
            hidden = config.hidden if config.hidden is not None else default
            self.actor = Layers(size, hidden, self.head.outputs, config.activation)
            self.critic = Layers(size, hidden, 1, config.activation)
        self.feature_size = size
        self._initialise(generator)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.parameters()).device

    @property
    def keeps_features(self) -> bool:
        """Whether a rollout stores features for the critic; otherwise they are the observation itself."""
        return not self.encoder.is_plain or self.recurrent is not None

    def features(
        self, leaves: tuple[Tensor, ...], state: Tensor | None = None, starts: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Features of one step, and the recurrent state after it; only a recurrent network needs all arguments."""
        found: Tensor = self.encoder(leaves)
        if self.recurrent is None:
            return found, None
        assert state is not None
        assert starts is not None
        out, state = self.recurrent(found.unsqueeze(0), state, starts.unsqueeze(0))
        return out.squeeze(0), state

    def sequences(self, leaves: tuple[Tensor, ...], state: Tensor, starts: Tensor) -> Tensor:
        """Features of whole sequences, time first; ``state`` is the recurrent state before their first row."""
        assert self.recurrent is not None
        length, count = starts.shape
        found = self.encoder(tuple(leaf.reshape(length * count, *leaf.shape[2:]) for leaf in leaves))
        out: Tensor = self.recurrent(found.view(length, count, -1), state, starts)[0]
        return out.reshape(length * count, -1)

    def multiplications(self) -> int:
        """Estimate of one row's forward pass: each weight once, those of a convolution once per output pixel."""
        total = sum(weights.numel() for weights in self.parameters())

        def count(layer: nn.Module, inputs: Any, out: Tensor) -> None:
            nonlocal total
            total += sum(weights.numel() for weights in layer.parameters()) * (out[0, 0].numel() - 1)

        kernels = [layer for layer in self.modules() if isinstance(layer, nn.Conv2d)]
        hooks = [layer.register_forward_hook(count) for layer in kernels]
        with torch.inference_mode():
            self.encoder(tuple(torch.zeros(1, *shape, dtype=kind, device=self.device) for shape, kind in self._leaves))
        for hook in hooks:
            hook.remove()
        return total

    def values(self, features: Tensor) -> Tensor:
        """The critic's estimates."""
        value: Tensor = self.critic(features)
        return value.squeeze(-1)

    def first_state(self, rows: int) -> Tensor | None:
        """The recurrent state at the start of an episode; None for a network without one."""
        return None if self.recurrent is None else torch.zeros(rows, self.recurrent.state_size, device=self.device)

    def _initialise(self, generator: torch.Generator) -> None:
        """Orthogonal weights with gain sqrt(2), 0.01 for the policy's output, 1 for the value's; biases are zero."""
        for name, weights in self.named_parameters():
            if isinstance(self.head, BoxHead) and weights is self.head.log_std:
                continue
            if weights.dim() < 2:
                nn.init.zeros_(weights)
            else:
                nn.init.orthogonal_(weights, 1.0 if name.startswith("recurrent") else math.sqrt(2), generator=generator)
        for layers, gain in ((self.actor, 0.01), (self.critic, 1.0)):
            last = layers[-1]
            assert isinstance(last, nn.Linear)
            nn.init.orthogonal_(last.weight, gain, generator=generator)


class RecurrentCore(nn.Module):
    """A GRU or LSTM with one row of state per slot, reset to zero where an episode starts."""

    def __init__(self, inputs: int, config: NetConfig) -> None:
        super().__init__()
        self.size = config.recurrent_size
        self._is_lstm = config.recurrent == "lstm"
        self.state_size = self.size * (2 if self._is_lstm else 1)
        self._cell = (nn.LSTM if self._is_lstm else nn.GRU)(inputs, self.size)

    def forward(self, features: Tensor, state: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs for (time, slots, features), and the state after them; ``starts`` marks first rows of episodes.

        Time is split where any slot starts an episode, and each piece goes through the cell in one call.
        """
        outputs = []
        for begin, end in _pieces(starts):
            state = state * (~starts[begin]).unsqueeze(-1)
            out, state = self._run(features[begin:end], state)
            outputs.append(out)
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs), state

    def _run(self, features: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        if not self._is_lstm:
            out, last = self._cell(features, state.unsqueeze(0))
            return out, last.squeeze(0)
        hidden, cell = state.unsqueeze(0).chunk(2, -1)
        out, (hidden, cell) = self._cell(features, (hidden.contiguous(), cell.contiguous()))
        return out, torch.cat((hidden, cell), -1).squeeze(0)


def _pieces(starts: Tensor) -> list[tuple[int, int]]:
    """Pieces of time in which only the first row may start an episode, as (begin, end)."""
    length = starts.shape[0]
    if length == 1:
        return [(0, 1)]
    cuts = (torch.nonzero(starts[1:].any(1)).squeeze(1) + 1).tolist()
    edges = [0, *cuts, length]
    return list(pairwise(edges))


class Layers(nn.Sequential):
    """Linear layers with an activation between them, in one call: for small layers, calls cost more than arithmetic."""

    def __init__(self, inputs: int, hidden: Sequence[int], outputs: int, activation: str) -> None:
        sizes = [inputs, *hidden, outputs]
        layers = [nn.Linear(before, after) for before, after in pairwise(sizes)]
        super().__init__(*layers)
        self._hidden, self._last = tuple(layers[:-1]), (layers[-1],)
        self._activate = torch.tanh if activation == "tanh" else torch.relu

    def forward(self, rows: Tensor) -> Tensor:
        """Rows of outputs."""
        for layer in self._hidden:
            rows = self._activate(functional.linear(rows, layer.weight, layer.bias))
        (last,) = self._last
        return functional.linear(rows, last.weight, last.bias)
