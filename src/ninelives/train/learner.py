"""The learner: weights, optimiser, schedule, reward normaliser and shuffling of a run, as one thing with one state.

Everything random comes from generators that are derived from the run's seed and are part of the state; the global
generator of torch is neither used nor changed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from ninelives.errors import NinelivesError
from ninelives.train.advantage import Targets, explained_variance, targets
from ninelives.train.config.classes import TrainConfig
from ninelives.train.policy.nets import Policy
from ninelives.train.policy.normalise import RewardNormaliser
from ninelives.train.ppo import clipped_loss, compiled_loss, ratios, update
from ninelives.train.rollout import Rollout
from ninelives.train.weights import FlatWeights

INITIAL, NOISE, SHUFFLE = range(3)
"""Children of the run's seed: one stream of chance each."""

MOMENTS = ("step", "exp_avg", "exp_avg_sq")
"""What Adam remembers."""


def stream(seed: int, which: int) -> torch.Generator:
    """One of the run's generators."""
    word = np.random.SeedSequence(seed, spawn_key=(which,)).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(word) & (2**63 - 1))


class Learner:
    """Learns from rollouts.

    Attributes:
        policy: the network that learns.
        weights: all its parameters as one vector.
        version: how many updates there were.
    """

    def __init__(
        self,
        config: TrainConfig,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        slots: int,
        device: str = "cpu",
    ) -> None:
        self._ppo, ppo = config.ppo, config.ppo
        initial = stream(config.seed, INITIAL)
        self.policy = Policy(observation_space, action_space, config.net, initial, clip_actions=ppo.clip_actions)
        self.policy.to(device)
        self.weights = FlatWeights(self.policy)
        self._adam = torch.optim.Adam([self.weights.values], ppo.learning_rate, eps=ppo.adam_eps, fused=True)
        self._loss = compiled_loss() if config.net.compile else clipped_loss
        self._shuffle = stream(config.seed, SHUFFLE)
        self._rewards = RewardNormaliser(slots, ppo.gamma, config.normalise)
        self.version = 0

    def learn(self, rollout: Rollout, progress: float) -> dict[str, float]:
        """One update; ``progress`` is how much of the run is over, 0 to 1."""
        rate = self._ppo.learning_rate * (1 - progress if self._ppo.schedule == "linear" else 1)
        self._adam.param_groups[0]["lr"] = rate
        wanted = self._targets(rollout)
        losses = update(self.policy, self.weights, self._adam, rollout, wanted, self._ppo, self._shuffle, self._loss)
        rows = rollout.learned
        if rows.any() and not math.isfinite(losses["loss"]):
            raise NinelivesError(
                f"update {self.version + 1} diverged: the loss is {losses['loss']}, and the weights are spoilt. Begin "
                "with a lower ppo.learning_rate, from a good checkpoint with model=..., or with normalise switched on"
            )
        self.version += 1
        foretold = explained_variance(rollout.values[:-1][rows], wanted.returns[rows]) if rows.any() else float("nan")
        return {**losses, "learning_rate": rate, "explained_variance": foretold}

    def _targets(self, rollout: Rollout) -> Targets:
        moved = ratios(self.policy, rollout) if self._ppo.vtrace else None
        return targets(
            self._rewards(rollout.rewards, rollout.ended, rollout.learned),
            rollout.values,
            rollout.final_values,
            rollout.terminated,
            rollout.truncated,
            rollout.learned,
            self._ppo.gamma,
            self._ppo.gae_lambda,
            moved,
        )

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next update depends on, but for the rollout and the weights."""
        memory = self._adam.state.get(self.weights.values)
        return {
            "adam": None if not memory else {name: memory[name].cpu().clone() for name in MOMENTS},
            "shuffle": self._shuffle.get_state(),
            "rewards": self._rewards.state_dict(),
            "version": self.version,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        if state["adam"] is not None:
            groups = self._adam.state_dict()["param_groups"]
            memory = {name: torch.as_tensor(state["adam"][name]).clone() for name in MOMENTS}
            self._adam.load_state_dict({"state": {0: memory}, "param_groups": groups})
        self._shuffle.set_state(torch.as_tensor(state["shuffle"]))
        self._rewards.load_state_dict(state["rewards"])
        self.version = int(state["version"])

    def weights_dict(self) -> dict[str, torch.Tensor]:
        """The weights by name, as they are now."""
        return {name: value.detach().cpu().clone() for name, value in self.policy.state_dict().items()}
