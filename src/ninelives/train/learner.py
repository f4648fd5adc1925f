"""The learner: weights, optimiser, learning-rate schedule, reward normaliser and shuffling of a run, with one state.

All randomness comes from generators that are derived from the run's seed and are part of the state; torch's global
generator is neither used nor changed. Must never step an environment.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from ninelives.errors import NinelivesError
from ninelives.train import ppo
from ninelives.train.config.classes import TrainConfig
from ninelives.train.policy.nets import Policy
from ninelives.train.policy.normalise import RewardNormaliser
from ninelives.train.policy.weights import FlatWeights
from ninelives.train.rollout import Rollout

INITIAL, NOISE, SHUFFLE = range(3)
"""Independent random streams derived from the run's seed: initial weights, action noise, order of minibatches."""

MOMENTS = ("step", "exp_avg", "exp_avg_sq")
"""Adam's state."""


def random_stream(seed: int, which: int) -> torch.Generator:
    """One of the run's generators: ``INITIAL``, ``NOISE`` or ``SHUFFLE``."""
    word = np.random.SeedSequence(seed, spawn_key=(which,)).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(word) & (2**63 - 1))


class Learner:
    """Learns from rollouts.

    Attributes:
        policy: the network that learns.
        weights: all its parameters as one vector.
        version: number of updates so far.
    """

    def __init__(
        self,
        config: TrainConfig,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        slots: int,
        device: str = "cpu",
    ) -> None:
        self._config = config.ppo
        self.policy = Policy(
            observation_space,
            action_space,
            config.net,
            random_stream(config.seed, INITIAL),
            clip_actions=config.ppo.clip_actions,
        )
        self.policy.to(device)
        self.weights = FlatWeights(self.policy)
        self._adam = torch.optim.Adam(
            [self.weights.values], config.ppo.learning_rate, eps=config.ppo.adam_eps, fused=True
        )
        self._loss = ppo.compiled_loss() if config.net.compile else ppo.clipped_loss
        self._shuffle = random_stream(config.seed, SHUFFLE)
        self._rewards = RewardNormaliser(slots, config.ppo.gamma, config.normalise)
        self.version = 0

    def learn(self, rollout: Rollout, progress: float) -> dict[str, float]:
        """One update; ``progress`` is the finished share of the run, 0 to 1. Returns the losses by name.

        Raises:
            NinelivesError: the loss is not finite.
        """
        rate = self._config.learning_rate * (1 - progress if self._config.schedule == "linear" else 1)
        self._adam.param_groups[0]["lr"] = rate
        targets = self._targets(rollout)
        losses = ppo.update(
            self.policy, self.weights, self._adam, rollout, targets, self._config, self._shuffle, self._loss
        )
        rows = rollout.learned
        if rows.any() and not math.isfinite(losses["loss"]):
            raise NinelivesError(
                f"update {self.version + 1} diverged: the loss is {losses['loss']}, and the weights can no longer be "
                "used. Start again from an earlier checkpoint with model=..., with a lower ppo.learning_rate, or with "
                "normalise.obs and normalise.reward switched on"
            )
        self.version += 1
        explained = (
            ppo.explained_variance(rollout.values[:-1][rows], targets.returns[rows]) if rows.any() else float("nan")
        )
        return {**losses, "learning_rate": rate, "explained_variance": explained}

    def _targets(self, rollout: Rollout) -> ppo.Targets:
        return ppo.advantages_and_returns(
            self._rewards(rollout.rewards, rollout.ended, rollout.learned),
            rollout.values,
            rollout.final_values,
            rollout.terminated,
            rollout.truncated,
            rollout.learned,
            self._config.gamma,
            self._config.gae_lambda,
            ppo.importance_ratios(self.policy, rollout) if self._config.vtrace else None,
        )

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next update depends on, except the rollout and the weights."""
        moments = self._adam.state.get(self.weights.values)
        return {
            "adam": None if not moments else {name: moments[name].cpu().clone() for name in MOMENTS},
            "shuffle": self._shuffle.get_state(),
            "rewards": self._rewards.state_dict(),
            "version": self.version,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        if state["adam"] is not None:
            groups = self._adam.state_dict()["param_groups"]
            moments = {name: torch.as_tensor(state["adam"][name]).clone() for name in MOMENTS}
            self._adam.load_state_dict({"state": {0: moments}, "param_groups": groups})
        self._shuffle.set_state(torch.as_tensor(state["shuffle"]))
        self._rewards.load_state_dict(state["rewards"])
        self.version = int(state["version"])

    def weights_dict(self) -> dict[str, torch.Tensor]:
        """A copy of the weights by name."""
        return {name: value.detach().cpu().clone() for name, value in self.policy.state_dict().items()}
