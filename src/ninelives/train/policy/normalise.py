"""Running statistics of observations and returns. They belong to the policy as much as its weights do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ninelives.train.config.classes import NormaliseConfig

EPSILON = 1e-8
"""Keeps a variance of zero from dividing anything."""

Numbers = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class Moments:
    """Mean and variance of rows seen so far, exact whatever the size of the pieces they come in (Chan's method)."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.count, self.mean, self.squares = 0, np.zeros(shape), np.zeros(shape)

    def add(self, rows: npt.NDArray[Any]) -> None:
        """Take these rows in."""
        count = len(rows)
        if not count:
            return
        mean = rows.mean(0, dtype=np.float64)
        squares = np.square(rows - mean).sum(0)
        total, apart = self.count + count, mean - self.mean
        self.mean = self.mean + apart * (count / total)
        self.squares = self.squares + squares + np.square(apart) * (self.count * count / total)
        self.count = total

    @property
    def deviation(self) -> Numbers:
        """Square root of the variance; ones before two rows were seen."""
        if self.count < 2:
            return np.ones_like(self.mean)
        return np.sqrt(self.squares / self.count + EPSILON)

    def state_dict(self) -> dict[str, Any]:
        """Everything."""
        return {"count": self.count, "mean": self.mean.copy(), "squares": self.squares.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.count = int(state["count"])
        self.mean, self.squares = np.array(state["mean"], np.float64), np.array(state["squares"], np.float64)


class ObsNormaliser:
    """Leaves of numbers (not pictures, not choices) to mean 0 and deviation 1; the others pass as they are."""

    def __init__(self, shapes: list[tuple[int, ...] | None], clip: float | None) -> None:
        self._moments = [None if shape is None else Moments(shape) for shape in shapes]
        self._clip = clip

    def learn(self, leaves: tuple[npt.NDArray[Any], ...], valid: Flags) -> None:
        """Take rows in; those that are not valid are no observations."""
        for moments, leaf in zip(self._moments, leaves, strict=True):
            if moments is not None:
                moments.add(leaf if valid.all() else leaf[valid])

    def apply(self, leaves: tuple[npt.NDArray[Any], ...]) -> tuple[npt.NDArray[Any], ...]:
        """The same rows, normalised."""
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
        """Everything."""
        leaves = [None if moments is None else moments.state_dict() for moments in self._moments]
        return {"leaves": leaves, "clip": self._clip}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        for moments, saved in zip(self._moments, state["leaves"], strict=True):
            if moments is not None:
                moments.load_state_dict(saved)


class RewardNormaliser:
    """Rewards divided by the deviation of the discounted return, a whole rollout at a time.

    All rows of a rollout are scaled by the same number, so that within it a reward means one thing.
    """

    def __init__(self, slots: int, gamma: float, config: NormaliseConfig) -> None:
        self._scale, self._clip, self._gamma = config.reward, config.clip_reward, gamma
        self._moments, self._running = Moments(()), np.zeros(slots)

    def __call__(self, rewards: Numbers, ended: Flags, learned: Flags) -> Numbers:
        """Rewards of a rollout, (time, slots), as they shall be learned from."""
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
        """Everything."""
        return {"moments": self._moments.state_dict(), "running": self._running.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self._moments.load_state_dict(state["moments"])
        self._running = np.array(state["running"], np.float64)
