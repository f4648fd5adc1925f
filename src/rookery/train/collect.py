"""Collects rollouts: the policy acts, the pool steps, rows are written in place.

Owns what is carried from one rollout to the next (observation, flags, memory, masks, the noise generator). What it
collects is a function of that, the weights and the environments. Must never learn, nor decide what a fault means: rows
that are no true transitions are marked, and that is all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rookery.pool.batch import Batch
from rookery.pool.pool import Pool
from rookery.spec.arrays import Node, leaves, split, tree_of
from rookery.spec.autoreset import Autoreset
from rookery.train.nets import Policy
from rookery.train.normalise import ObsNormaliser
from rookery.train.rollout import EndedEpisode, Final, Rollout

MASK = "action_mask"
"""The info in which an environment says which actions are allowed."""

Watch = Callable[[Batch], None]


@dataclass
class Carry:
    """What one rollout leaves to the next: one row per slot."""

    obs: tuple[npt.NDArray[Any], ...]
    ended: npt.NDArray[np.bool_]
    starts: npt.NDArray[np.bool_]
    state: Tensor | None
    masks: npt.NDArray[np.bool_] | None


class Collector:
    """Steps a pool with a policy.

    Args:
        pool: nothing may be under way in it between rollouts.
        policy: of the same shape as those that will act.
        generator: decides the actions.
        normaliser: of observations, if they are normalised.
        watch: is shown every batch between steps.
    """

    def __init__(
        self,
        pool: Pool,
        policy: Policy,
        generator: torch.Generator,
        normaliser: ObsNormaliser | None = None,
        watch: Watch | None = None,
    ) -> None:
        self.pool, self.generator, self.normaliser, self._watch = pool, generator, normaliser, watch
        self.same_step = Autoreset.parse(pool.options.autoreset) is Autoreset.SAME_STEP
        self._node: Node = tree_of(pool.observation_space)
        self._plain = len(list(leaves(self._node))) == 1 and not isinstance(self._node, dict)
        self._head, self._memory = policy.head, policy.memory
        self._first_state = policy.first_state(pool.num_envs)
        self.carry: Carry | None = None

    @property
    def has_masks(self) -> bool:
        """Whether the environments say which actions are allowed."""
        return self.carry is not None and self.carry.masks is not None

    def begin(self, batch: Batch) -> None:
        """First observations of all slots."""
        slots = self.pool.num_envs
        rows, everyone = self.leaves_of(batch.obs), np.ones(slots, np.bool_)
        if self.normaliser is not None:
            self.normaliser.learn(rows, batch.valid)
            rows = self.normaliser.apply(rows)
        masks = None
        if MASK in batch.infos and self._head.mask_size:
            masks = np.ones((slots, self._head.mask_size), np.bool_)
            self._take_masks(masks, batch.infos)
        self.carry = Carry(rows, ~everyone, everyone, self._first_state, masks)

    def collect(self, policy: Policy, rollout: Rollout, version: int) -> None:
        """Fill the rollout."""
        begun = time.perf_counter()
        with torch.inference_mode():
            self._open(rollout, version)
            self._step_all(policy, rollout)
            self._close(rollout)
            self._look_back(policy, rollout)
        rollout.seconds = time.perf_counter() - begun

    def _open(self, rollout: Rollout, version: int) -> None:
        carry = self.carry
        assert carry is not None
        for into, rows in zip(rollout.obs, carry.obs, strict=True):
            into[0].numpy()[...] = rows
        rollout.starts[0] = carry.starts
        if rollout.masks is not None:
            rollout.masks[0].numpy()[...] = carry.masks
        rollout.versions.fill(version)
        rollout.episodes.clear()
        rollout.finals.clear()
        self.state = carry.state

    def _step_all(self, policy: Policy, rollout: Rollout) -> None:
        """The loop that everything else is out of the way of."""
        pool_step, head, take, watch = self.pool.step, policy.head, self._take, self._watch
        noise = head.noise((rollout.steps, rollout.slots), self.generator).unbind(0)
        obs = list(zip(*(leaf.unbind(0) for leaf in rollout.obs), strict=True))
        actions, params = rollout.actions.unbind(0), rollout.params.unbind(0)
        for now in range(rollout.steps):
            numbers = self._think(policy, rollout, obs[now], now)
            params[now].copy_(numbers)
            actions[now].copy_(head.sample(numbers, noise[now]))
            batch = pool_step(head.to_env(actions[now].numpy()))
            take(rollout, now, batch)
            if watch is not None:
                watch(batch)

    def _think(self, policy: Policy, rollout: Rollout, obs: tuple[Tensor, ...], now: int) -> Tensor:
        """The actor's numbers for one row of every slot."""
        if policy.memory is None:
            features: Tensor = policy.encoder(obs)
        else:
            if rollout.states is not None and now % rollout.sequence == 0:
                assert self.state is not None
                rollout.states[now // rollout.sequence].copy_(self.state)
            features, self.state = policy.features(obs, self.state, torch.from_numpy(rollout.starts[now]))
        if rollout.features is not None:
            rollout.features[now].copy_(features)
        numbers: Tensor = policy.actor(features)
        return numbers if rollout.masks is None else policy.head.masked(numbers, rollout.masks[now])

    def _take(self, rollout: Rollout, now: int, batch: Batch) -> None:
        rows = self.leaves_of(batch.obs)
        if self.normaliser is not None:
            self.normaliser.learn(rows, batch.valid)
            rows = self.normaliser.apply(rows)
        for into, row in zip(rollout.obs, rows, strict=True):
            into[now + 1].numpy()[...] = row
        rollout.rewards[now] = batch.reward
        rollout.terminated[now] = batch.terminated
        rollout.truncated[now] = batch.truncated
        rollout.valid[now] = batch.valid
        if self._memory is not None:
            self._mark_starts(rollout, now)
        if rollout.masks is not None:
            rollout.masks[now + 1].fill_(True)
        if batch.infos:
            self._take_infos(rollout, now, batch)
        if len(batch.episodes):
            self._take_episodes(rollout, now, batch)

    def _mark_starts(self, rollout: Rollout, now: int) -> None:
        """A memory forgets after an episode's end, after a reset row, and after rows that never were."""
        if self.same_step:
            rollout.starts[now + 1] = rollout.terminated[now] | rollout.truncated[now] | ~rollout.valid[now]
        else:
            rollout.starts[now + 1] = self._ended_before(rollout, now) | ~rollout.valid[now]

    def _ended_before(self, rollout: Rollout, now: int) -> npt.NDArray[np.bool_]:
        if now:
            return rollout.terminated[now - 1] | rollout.truncated[now - 1]
        assert self.carry is not None
        return self.carry.ended

    def _take_infos(self, rollout: Rollout, now: int, batch: Batch) -> None:
        infos = batch.infos
        if rollout.masks is not None and MASK in infos:
            self._take_masks(rollout.masks[now + 1].numpy(), infos)
        if self.same_step and "final_obs" in infos:
            cut = infos["_final_obs"] & batch.truncated & ~batch.terminated & batch.valid
            for slot in np.flatnonzero(cut).tolist():
                state = None if self.state is None else self.state[slot].clone()
                rollout.finals.append(Final(now, slot, self._final_leaves(infos["final_obs"][slot]), state))

    def _take_masks(self, into: npt.NDArray[np.bool_], infos: Mapping[str, Any]) -> None:
        for slot in np.flatnonzero(infos[f"_{MASK}"]).tolist():
            into[slot] = self._head.mask_row(infos[MASK][slot])

    def _final_leaves(self, obs: Any) -> tuple[npt.NDArray[Any], ...]:
        rows = tuple(np.asarray(value)[None] for _, value in split(self._node, obs))
        return rows if self.normaliser is None else self.normaliser.apply(rows)

    def _take_episodes(self, rollout: Rollout, now: int, batch: Batch) -> None:
        ended = batch.episodes
        columns = (ended.slots.tolist(), ended.returns.tolist(), ended.lengths.tolist(), ended.times_s.tolist())
        rollout.episodes += [EndedEpisode(now, *row) for row in zip(*columns, strict=True)]

    def _close(self, rollout: Rollout) -> None:
        """What the rollout leaves to the next, and which of its rows are true steps of an episode."""
        before = self.carry
        assert before is not None
        ended = rollout.ended
        rollout.learned[...] = rollout.valid
        if not self.same_step:
            rollout.learned[1:] &= ~ended[:-1]
            rollout.learned[0] &= ~before.ended
        self.carry = Carry(
            obs=tuple(leaf[-1].numpy().copy() for leaf in rollout.obs),
            ended=ended[-1].copy(),
            starts=rollout.starts[-1].copy(),
            state=self.state,
            masks=None if rollout.masks is None else rollout.masks[-1].numpy().copy(),
        )

    def _look_back(self, policy: Policy, rollout: Rollout) -> None:
        """Everything that need not be known while steps are made, for all rows at once."""
        seen = rollout.obs[0][:-1] if rollout.features is None else rollout.features
        last, _ = policy.features(
            tuple(leaf[-1] for leaf in rollout.obs), self.state, torch.from_numpy(rollout.starts[-1])
        )
        rollout.values[:-1] = policy.values(seen.flatten(0, 1)).view(rollout.steps, rollout.slots).numpy()
        rollout.values[-1] = policy.values(last).numpy()
        rollout.log_probs.copy_(policy.head.log_prob(rollout.params, rollout.actions))
        rollout.final_values[...] = rollout.values[1:]
        if rollout.finals:
            self._value_finals(policy, rollout)

    def _value_finals(self, policy: Policy, rollout: Rollout) -> None:
        finals = rollout.finals
        joined = tuple(
            torch.from_numpy(np.concatenate(rows)).to(leaf.dtype)
            for leaf, rows in zip(rollout.obs, zip(*(final.leaves for final in finals), strict=True), strict=True)
        )
        state = torch.stack([final.state for final in finals if final.state is not None]) if self._memory else None
        features, _ = policy.features(joined, state, torch.zeros(len(finals), dtype=torch.bool))
        values = policy.values(features).numpy()
        rollout.final_values[[final.row for final in finals], [final.slot for final in finals]] = values

    def leaves_of(self, obs: Any) -> tuple[npt.NDArray[Any], ...]:
        """The leaves of a batch of observations, in order."""
        if isinstance(obs, np.ndarray):
            return (obs,)
        return tuple(value for _, value in split(self._node, obs))

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next rollout depends on, but for weights and environments."""
        carry = self.carry
        assert carry is not None
        return {
            "obs": [rows.copy() for rows in carry.obs],
            "ended": carry.ended.copy(),
            "starts": carry.starts.copy(),
            "state": None if carry.state is None else carry.state.clone(),
            "masks": None if carry.masks is None else carry.masks.copy(),
            "noise": self.generator.get_state(),
            "normaliser": None if self.normaliser is None else self.normaliser.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        memory = None if state["state"] is None else torch.as_tensor(state["state"])
        self.carry = Carry(tuple(state["obs"]), state["ended"], state["starts"], memory, state["masks"])
        self.generator.set_state(torch.as_tensor(state["noise"]))
        if self.normaliser is not None:
            self.normaliser.load_state_dict(state["normaliser"])
