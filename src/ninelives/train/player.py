"""A policy that plays: weights, normaliser and memory together, from a run or from a checkpoint. Never learns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from ninelives.train.policy.encoders import is_image, leaf_spaces, stored_dtype
from ninelives.train.policy.heads import Head
from ninelives.train.policy.nets import Policy
from ninelives.train.policy.normalise import ObsNormaliser
from ninelives.train.saving.space_tree import space_of

MASK = "action_mask"
"""The info in which an environment says which actions are allowed."""


def take_masks(head: Head, into: npt.NDArray[np.bool_], rows: Sequence[int], infos: Mapping[str, Any]) -> None:
    """Write the masks that are in these infos into rows of ``into``; a row without one allows everything."""
    for row in np.flatnonzero(infos[f"_{MASK}"]).tolist():
        into[rows[row]] = head.mask_row(infos[MASK][row])


def obs_normaliser(space: spaces.Space[Any], clip: float | None) -> ObsNormaliser:
    """For the leaves of a space that are numbers."""
    kinds = [leaf for _, leaf in leaf_spaces(space)]
    plain = [isinstance(leaf, spaces.Box) and not is_image(leaf) for leaf in kinds]
    return ObsNormaliser([leaf.shape if wanted else None for leaf, wanted in zip(kinds, plain, strict=True)], clip)


class Player:
    """Plays any number of slots at once.

    Args:
        policy: the network.
        normaliser: of observations, if it was trained with one.
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
    def of_state(cls, state: Mapping[str, Any]) -> Player:
        """From the state of a checkpoint alone."""
        tree, net = state["spaces"], dict(state["net"])
        hidden = net.get("hidden")
        config = NetConfig(**{**net, "hidden": None if hidden is None else tuple(hidden)})
        space, actions = space_of(tree["observation"]), space_of(tree["action"])
        policy = Policy(space, actions, config, torch.Generator(), clip_actions=state["clip_actions"])
        policy.load_state_dict({name: torch.as_tensor(value) for name, value in state["weights"].items()})
        return cls(policy, space, actions, normaliser_of(state, space))

    def begin(self, rows: int, *, greedy: bool, seed: int) -> None:
        """Forget everything; so many slots will be played."""
        self._greedy = greedy
        self._generator = torch.Generator().manual_seed(seed)
        self._state = self.policy.first_state(rows)

    def act(self, batch: Batch, starts: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
        """Actions for every slot of a full batch; ``starts`` marks those whose episode has just begun."""
        masks, head = None, self.policy.head
        if MASK in batch.infos and head.mask_size:
            masks = np.ones((len(batch), head.mask_size), np.bool_)
            take_masks(head, masks, range(len(batch)), batch.infos)
        return self.actions(batch.obs, starts, masks)

    def actions(
        self, obs: Any, starts: npt.NDArray[np.bool_] | None = None, masks: npt.NDArray[np.bool_] | None = None
    ) -> npt.NDArray[Any]:
        """Actions for rows of observations; ``starts`` is needed only by a policy with a memory."""
        with torch.inference_mode():
            params, head, there = self.params(obs, starts), self.policy.head, self.policy.device
            if masks is not None:
                params = head.masked(params, torch.from_numpy(masks).to(there))
            if self._greedy:
                chosen = head.greedy(params)
            else:
                chosen = head.sample(params, head.noise((len(params),), self._generator).to(there))
            return head.to_env(chosen.cpu().numpy())

    def params(self, obs: Any, starts: npt.NDArray[np.bool_] | None = None) -> Tensor:
        """The head's numbers."""
        rows = tuple(np.asarray(value) for _, value in split(self._node, obs))
        if self._state is not None and len(rows[0]) != len(self._state):
            raise UsageError(f"{len(rows[0])} rows for a memory of {len(self._state)}: call begin({len(rows[0])}, ...)")
        if self.normaliser is not None:
            rows = self.normaliser.apply(rows)
        there = self.policy.device
        leaves = tuple(torch.as_tensor(row).to(there, kind) for row, kind in zip(rows, self._dtypes, strict=True))
        begun = np.zeros(len(rows[0]), np.bool_) if starts is None else starts
        features, self._state = self.policy.features(leaves, self._state, torch.from_numpy(begun).to(there))
        params: Tensor = self.policy.actor(features)
        return params


def normaliser_of(state: Mapping[str, Any], space: spaces.Space[Any]) -> ObsNormaliser | None:
    """The observation normaliser of a state, if it has one."""
    saved = state["collector"]["normaliser"]
    if saved is None:
        return None
    normaliser = obs_normaliser(space, saved["clip"])
    normaliser.load_state_dict(saved)
    return normaliser
