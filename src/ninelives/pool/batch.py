"""What ``recv`` hands out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(slots=True, eq=False)  # not frozen: freezing alone doubles the time to make one
class Episodes:
    """Episodes that ended in this batch, counted by the workers: one entry per ended row."""

    slots: npt.NDArray[np.int64]
    returns: npt.NDArray[np.float64]
    lengths: npt.NDArray[np.int64]
    times_s: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.slots)


NO_EPISODES = Episodes(np.zeros(0, np.int64), np.zeros(0, np.float64), np.zeros(0, np.int64), np.zeros(0, np.float64))


@dataclass(slots=True)
class Batch:
    """One row per slot that is ready.

    Attributes:
        obs: observations in the structure of the space, rows first.
        reward: float64.
        terminated: the environment ended the episode.
        truncated: the episode was cut, by the environment or by a fault.
        valid: False where no true transition happened (a fault, a restart, a quarantined slot). Learners mask these.
        slots: which slot each row belongs to.
        infos: as Gymnasium's vector environments have them; ``infos["fault"]`` names the faults of this batch.
        episodes: return, length and time of episodes that ended here.
    """

    obs: Any
    reward: npt.NDArray[np.float64]
    terminated: npt.NDArray[np.bool_]
    truncated: npt.NDArray[np.bool_]
    valid: npt.NDArray[np.bool_]
    slots: npt.NDArray[np.int64]
    infos: dict[str, Any] = field(default_factory=dict)
    episodes: Episodes = NO_EPISODES

    def __len__(self) -> int:
        return len(self.slots)
