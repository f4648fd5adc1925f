"""A policy that acts: network, observation normaliser and recurrent state together, from a run or a checkpoint.

Must never learn: neither weights nor statistics change here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from torch import Tensor

from ninelives.errors import UsageError
from ninelives.pool.batch import Batch
from ninelives.spec.arrays import split, tree_of
from ninelives.train.config.classes import NetConfig
from ninelives.train.policy.encoders import leaf_spaces, stored_dtype
from ninelives.train.policy.heads import ACTION_MASK, write_masks
from ninelives.train.policy.nets import Policy
from ninelives.train.policy.normalise import ObsNormaliser
from ninelives.train.saving.space_tree import space_of


class ActingPolicy:
    """Chooses actions for any number of slots at once.

    Args:
        policy: the network.
        observation_space: of one environment.
        action_space: of one environment.
        normaliser: of observations, if the policy was trained with one.
    """

    def __init__(
        self,
        policy: Policy,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        normaliser: ObsNormaliser | None = None,
    ) -> None:
        self.policy, self.normaliser = policy, normaliser
        self.observation_space, self.action_space = observation_space, action_space
        self._node = tree_of(observation_space)
        self._dtypes = [stored_dtype(leaf) for _, leaf in leaf_spaces(observation_space)]
        self.begin(1, greedy=True, seed=0)

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> ActingPolicy:
        """From a checkpoint's state alone."""
        tree, net = state["spaces"], dict(state["net"])
        hidden = net.get("hidden")
        config = NetConfig(**{**net, "hidden": None if hidden is None else tuple(hidden)})
        space, actions = space_of(tree["observation"]), space_of(tree["action"])
        policy = Policy(space, actions, config, torch.Generator(), clip_actions=state["clip_actions"])
        policy.load_state_dict({name: torch.as_tensor(value) for name, value in state["weights"].items()})
        return cls(policy, space, actions, ObsNormaliser.of_state(state, space))

    def begin(self, rows: int, *, greedy: bool, seed: int) -> None:
        """Reset for this number of slots: the recurrent state, and the generator with this seed."""
        self._greedy = greedy
        self._generator = torch.Generator().manual_seed(seed)
        self._state = self.policy.first_state(rows)

    def act(self, batch: Batch, starts: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
        """Actions for every slot of a full batch; ``starts`` marks rows that are the first of an episode."""
        masks, head = None, self.policy.head
        if ACTION_MASK in batch.infos and head.mask_size:
            masks = np.ones((len(batch), head.mask_size), np.bool_)
            write_masks(head, masks, range(len(batch)), batch.infos)
        return self.actions(batch.obs, starts, masks)

    def actions(
        self, obs: Any, starts: npt.NDArray[np.bool_] | None = None, masks: npt.NDArray[np.bool_] | None = None
    ) -> npt.NDArray[Any]:
        """Actions for rows of observations; only a recurrent policy needs ``starts``."""
        with torch.inference_mode():
            params, head, device = self.params(obs, starts), self.policy.head, self.policy.device
            if masks is not None:
                params = head.masked(params, torch.from_numpy(masks).to(device))
            if self._greedy:
                actions = head.greedy(params)
            else:
                actions = head.sample(params, head.noise((len(params),), self._generator).to(device))
            return head.to_env(actions.cpu().numpy())

    def params(self, obs: Any, starts: npt.NDArray[np.bool_] | None = None) -> Tensor:
        """Parameters of the action distribution, one row per row of observations."""
        rows = tuple(np.asarray(value) for _, value in split(self._node, obs))
        if self._state is not None and len(rows[0]) != len(self._state):
            raise UsageError(
                f"{len(rows[0])} rows of observations, but the recurrent state has {len(self._state)}: call "
                f"begin({len(rows[0])}, ...) first"
            )
        if self.normaliser is not None:
            rows = self.normaliser.apply(rows)
        device = self.policy.device
        leaves = tuple(torch.as_tensor(row).to(device, kind) for row, kind in zip(rows, self._dtypes, strict=True))
        starts = np.zeros(len(rows[0]), np.bool_) if starts is None else starts
        features, self._state = self.policy.features(leaves, self._state, torch.from_numpy(starts).to(device))
        params: Tensor = self.policy.actor(features)
        return params
