"""Running statistics that normalise observations and rewards. They are part of a policy as much as its weights are.

Must never normalise with rows that are not true transitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from ninelives.train.config.classes import NormaliseConfig
from ninelives.train.policy.encoders import is_image, leaf_spaces

EPSILON = 1e-8
"""Avoids a division by zero where a variance is zero."""

Numbers = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class Moments:
    """Mean and variance of all rows so far, exact however they are split into batches (Chan's method)."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.count, self.mean, self.squares = 0, np.zeros(shape), np.zeros(shape)

    def add(self, rows: npt.NDArray[Any]) -> None:
        """Include these rows."""
        count = len(rows)
        if not count:
            return
        mean = rows.mean(0, dtype=np.float64)
        squares = np.square(rows - mean).sum(0)
        total, delta = self.count + count, mean - self.mean
        self.mean = self.mean + delta * (count / total)
        self.squares = self.squares + squares + np.square(delta) * (self.count * count / total)
        self.count = total

    @property
    def deviation(self) -> Numbers:
        """Standard deviation; ones until there are two rows."""
        if self.count < 2:
            return np.ones_like(self.mean)
        return np.sqrt(self.squares / self.count + EPSILON)

    def state_dict(self) -> dict[str, Any]:
        """A copy of all statistics."""
        return {"count": self.count, "mean": self.mean.copy(), "squares": self.squares.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from saved statistics."""
        self.count = int(state["count"])
        if not 0 <= self.count < 2**63:
            raise ValueError(f"saved statistics of {self.count} rows")
        self.mean, self.squares = _of_shape(self.mean, state["mean"]), _of_shape(self.squares, state["squares"])


class ObsNormaliser:
    """Normalises leaves of numbers to mean 0 and deviation 1; images and discrete leaves pass unchanged.

    Args:
        shapes: of each leaf; None for a leaf that passes unchanged.
        clip: bound of the normalised numbers, if any.
    """

    def __init__(self, shapes: list[tuple[int, ...] | None], clip: float | None) -> None:
        self._moments = [None if shape is None else Moments(shape) for shape in shapes]
        self._clip = clip

    @classmethod
    def for_space(cls, space: spaces.Space[Any], clip: float | None) -> ObsNormaliser:
        """For the numeric leaves of an observation space."""
        leaves = [leaf for _, leaf in leaf_spaces(space)]
        return cls(
            [leaf.shape if isinstance(leaf, spaces.Box) and not is_image(leaf) else None for leaf in leaves], clip
        )

    @classmethod
    def of_state(cls, state: Mapping[str, Any], space: spaces.Space[Any]) -> ObsNormaliser | None:
        """The observation normaliser of a checkpoint's state, if it has one."""
        saved = state["collector"]["normaliser"]
        if saved is None:
            return None
        normaliser = cls.for_space(space, None if saved["clip"] is None else float(saved["clip"]))
        normaliser.load_state_dict(saved)
        return normaliser

    def learn(self, leaves: tuple[npt.NDArray[Any], ...], valid: Flags) -> None:
        """Include the valid rows in the statistics."""
        for moments, leaf in zip(self._moments, leaves, strict=True):
            if moments is not None:
                moments.add(leaf if valid.all() else leaf[valid])

    def apply(self, leaves: tuple[npt.NDArray[Any], ...]) -> tuple[npt.NDArray[Any], ...]:
        """The rows, normalised."""
        return tuple(
            leaf if moments is None else self._scaled(leaf, moments)
            for moments, leaf in zip(self._moments, leaves, strict=True)
        )

    def _scaled(self, leaf: npt.NDArray[Any], moments: Moments) -> npt.NDArray[np.float32]:
        scaled = (leaf - moments.mean) / moments.deviation
        if self._clip is not None:
            np.clip(scaled, -self._clip, self._clip, out=scaled)
        return scaled.astype(np.float32)

    def state_dict(self) -> dict[str, Any]:
        """A copy of all statistics."""
        leaves = [None if moments is None else moments.state_dict() for moments in self._moments]
        return {"leaves": leaves, "clip": self._clip}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from saved statistics."""
        for moments, saved in zip(self._moments, state["leaves"], strict=True):
            if moments is not None:
                moments.load_state_dict(saved)


class RewardNormaliser:
    """Divides rewards by the standard deviation of the discounted return, one rollout at a time.

    All rows of a rollout are divided by the same number, so that rewards within a rollout stay comparable.
    """

    def __init__(self, slots: int, gamma: float, config: NormaliseConfig) -> None:
        self._scale, self._clip, self._gamma = config.reward, config.clip_reward, gamma
        self._moments, self._running = Moments(()), np.zeros(slots)

    def __call__(self, rewards: Numbers, ended: Flags, learned: Flags) -> Numbers:
        """The rewards of a rollout, (time, slots), that the learner uses."""
        if self._scale:
            self._moments.add(self._returns(rewards, ended, learned)[learned])
            rewards = rewards / self._moments.deviation
        return rewards if self._clip is None else np.clip(rewards, -self._clip, self._clip)

    def _returns(self, rewards: Numbers, ended: Flags, learned: Flags) -> Numbers:
        returns = np.empty_like(rewards)
        for now, reward in enumerate(rewards):
            self._running = self._running * self._gamma + reward
            returns[now] = self._running
            self._running[ended[now] | ~learned[now]] = 0.0
        return returns

    def state_dict(self) -> dict[str, Any]:
        """A copy of all statistics."""
        return {"moments": self._moments.state_dict(), "running": self._running.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from saved statistics."""
        self._moments.load_state_dict(state["moments"])
        self._running = _of_shape(self._running, state["running"])


def _of_shape(mine: Numbers, saved: Any) -> Numbers:
    numbers = np.array(saved, np.float64)
    if numbers.shape != mine.shape:
        raise ValueError(f"saved statistics have the shape {numbers.shape}, not {mine.shape}")
    return numbers
