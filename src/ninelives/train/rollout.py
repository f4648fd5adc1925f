"""The arrays of one rollout: allocated once, written in place, shaped (time, slots). Must never step or learn.

Tensors are on the CPU and share their memory with NumPy. Observations have one row more than there are steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from torch import Tensor

from ninelives.train.policy.encoders import leaf_spaces, stored_dtype
from ninelives.train.policy.nets import Policy


@dataclass(frozen=True)
class EndedEpisode:
    """An episode that ended in row ``row`` of a rollout."""

    row: int
    slot: int
    total: float
    length: int
    took_s: float


@dataclass(frozen=True)
class FinalObs:
    """The true last observation of an episode that was truncated and reset in the same step."""

    row: int
    slot: int
    leaves: tuple[npt.NDArray[Any], ...]
    state: Tensor | None


@dataclass(eq=False)
class Rollout:
    """What one policy observed and did in ``steps`` steps of ``slots`` slots.

    Attributes:
        obs: one array per leaf of the observation.
        actions: as sampled, before they are clipped to the environment's bounds.
        params: parameters of the action distributions of the policy that acted.
        features: inputs of the critic, where they are not the observation itself.
        masks: allowed actions, if the environment gives masks.
        states: recurrent state before the first row of each sequence.
        rewards, terminated, truncated, valid: as received from the pool.
        learned: rows to learn from: valid, and not the reset row of next-step autoreset.
        starts: the observation is the first of an episode, so a recurrent state is reset before it.
        values: of each observation; computed when the rollout is complete, like the next two.
        final_values: of true last observations, where a row is truncated.
        log_probs: of the actions, by the policy that acted.
        versions: of the weights that acted.
        sequence: rows of a sequence for a recurrent network.
        seconds: how long collecting took.
        episodes: the episodes that ended in this rollout.
        finals: true last observations that are not in ``obs``.
    """

    steps: int
    slots: int
    obs: tuple[Tensor, ...]
    actions: Tensor
    params: Tensor
    features: Tensor | None
    masks: Tensor | None
    states: Tensor | None
    rewards: npt.NDArray[np.float64]
    terminated: npt.NDArray[np.bool_]
    truncated: npt.NDArray[np.bool_]
    valid: npt.NDArray[np.bool_]
    learned: npt.NDArray[np.bool_]
    starts: npt.NDArray[np.bool_]
    values: npt.NDArray[np.float32]
    final_values: npt.NDArray[np.float32]
    log_probs: Tensor
    versions: npt.NDArray[np.int64]
    sequence: int
    seconds: float = 0.0
    episodes: list[EndedEpisode] = field(default_factory=list)
    finals: list[FinalObs] = field(default_factory=list)

    @classmethod
    def allocate(
        cls, policy: Policy, space: spaces.Space[Any], steps: int, slots: int, *, masks: bool, bptt: int | None
    ) -> Rollout:
        """Arrays for a rollout of this policy."""
        head, recurrent, shape = policy.head, policy.recurrent, (steps, slots)
        sequence = bptt or steps
        obs = tuple(
            torch.zeros(steps + 1, slots, *(leaf.shape or ()), dtype=stored_dtype(leaf))
            for _, leaf in leaf_spaces(space)
        )
        return cls(
            steps=steps,
            slots=slots,
            obs=obs,
            actions=torch.zeros(*shape, *head.shape, dtype=head.dtype),
            params=torch.zeros(*shape, head.outputs),
            features=torch.zeros(steps, slots, policy.feature_size) if policy.keeps_features else None,
            masks=torch.ones(steps + 1, slots, head.mask_size, dtype=torch.bool) if masks else None,
            states=torch.zeros(steps // sequence, slots, recurrent.state_size) if recurrent is not None else None,
            rewards=np.zeros(shape),
            terminated=np.zeros(shape, np.bool_),
            truncated=np.zeros(shape, np.bool_),
            valid=np.zeros(shape, np.bool_),
            learned=np.zeros(shape, np.bool_),
            starts=np.zeros((steps + 1, slots), np.bool_),
            values=np.zeros((steps + 1, slots), np.float32),
            final_values=np.zeros(shape, np.float32),
            log_probs=torch.zeros(shape),
            versions=np.zeros(shape, np.int64),
            sequence=sequence,
        )

    @property
    def ended(self) -> npt.NDArray[np.bool_]:
        """Rows that end an episode."""
        return self.terminated | self.truncated

    @property
    def version(self) -> int:
        """Version of the weights that acted."""
        return int(self.versions[0, 0])

    def state_dict(self) -> dict[str, Any]:
        """A copy of everything the learner needs of a complete rollout."""
        episodes = [list(astuple(ended)) for ended in self.episodes]
        return {**{name: _plain(getattr(self, name)) for name in _SAVED}, "episodes": episodes, "seconds": self.seconds}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Copy the contents of a saved rollout of the same shape."""
        self.episodes[:] = [EndedEpisode(*ended) for ended in state["episodes"]]
        self.seconds = float(state["seconds"])
        for name in _SAVED:
            mine, saved = getattr(self, name), state[name]
            if isinstance(mine, tuple):
                for here, there in zip(mine, saved, strict=True):
                    here.copy_(torch.as_tensor(there))
            elif isinstance(mine, Tensor):
                mine.copy_(torch.as_tensor(saved))
            elif mine is not None:
                mine[...] = saved


_SAVED = (
    "obs", "actions", "masks", "states", "rewards", "terminated", "truncated", "valid", "learned", "starts", "values",
    "final_values", "log_probs", "versions",
)  # fmt: skip


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [part.clone() for part in value]
    if isinstance(value, Tensor):
        return value.clone()
    return None if value is None else value.copy()
