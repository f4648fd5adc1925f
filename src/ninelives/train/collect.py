"""Collects rollouts: the policy acts, the pool steps, rows are written in place.

Owns what is carried from one rollout to the next (observations, flags, recurrent state, masks, the noise generator). A
rollout is a function of that, the weights and the environments. Must never learn, nor decide what a fault means: rows
that are not true transitions are only marked.
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

from ninelives.pool.batch import Batch
from ninelives.pool.pool import Pool
from ninelives.spec.arrays import split, tree_of
from ninelives.spec.autoreset import Autoreset
from ninelives.train.policy.encoders import leaf_spaces
from ninelives.train.policy.heads import ACTION_MASK, write_masks
from ninelives.train.policy.nets import Policy
from ninelives.train.policy.normalise import ObsNormaliser
from ninelives.train.rollout import EndedEpisode, FinalObs, Rollout

BatchListener = Callable[[Batch], None]
Rows = tuple[npt.NDArray[Any], ...]
Flags = npt.NDArray[np.bool_]
Row = Any
"""The row of a rollout that a batch belongs to: one number, or one per slot of the batch."""

ALL_SLOTS = slice(None)


class CollectionStoppedError(RuntimeError):
    """The rollout is incomplete because ``stop`` was called."""


@dataclass
class Carry:
    """What the next rollout starts from, one row per slot.

    Attributes:
        obs: the newest observation, one array per leaf.
        ended: the last step ended an episode.
        starts: ``obs`` is the first observation of an episode.
        state: recurrent state, if there is one.
        masks: allowed actions, if the environment gives masks.
    """

    obs: Rows
    ended: Flags
    starts: Flags
    state: Tensor | None
    masks: Flags | None


class Collector:
    """Steps a pool with a policy, all slots at once.

    Args:
        pool: must be idle between rollouts.
        policy: has the shape of the policies that will act.
        generator: source of the action noise.
        normaliser: of observations, if they are normalised.
        on_batch: called with each batch, between steps.
    """

    def __init__(
        self,
        pool: Pool,
        policy: Policy,
        generator: torch.Generator,
        normaliser: ObsNormaliser | None = None,
        on_batch: BatchListener | None = None,
    ) -> None:
        self.pool, self.generator, self.normaliser, self._on_batch = pool, generator, normaliser, on_batch
        self._same_step = Autoreset.parse(pool.options.autoreset) is Autoreset.SAME_STEP
        self._node = tree_of(pool.observation_space)
        self._head, self._device = policy.head, policy.device
        self._state = self._first_state = policy.first_state(pool.num_envs)
        self._obs_rows: Rows = ()
        self._carry: Carry | None = None
        self._stopped = False

    def stop(self) -> None:
        """End collecting with ``CollectionStoppedError`` after the current step; called from another thread."""
        self._stopped = True

    @property
    def carry(self) -> Carry:
        """What the next rollout starts from."""
        assert self._carry is not None, "call begin() first"
        return self._carry

    def begin(self, batch: Batch) -> None:
        """Start with the first observations of all slots."""
        slots = self.pool.num_envs
        all_slots, masks = np.ones(slots, np.bool_), None
        if ACTION_MASK in batch.infos and self._head.mask_size:
            masks = np.ones((slots, self._head.mask_size), np.bool_)
            write_masks(self._head, masks, range(slots), batch.infos)
        self._carry = Carry(self._observed(batch), ~all_slots, all_slots, self._first_state, masks)

    def collect(self, policy: Policy, rollout: Rollout, version: int) -> None:
        """Fill the rollout."""
        started = time.perf_counter()
        with torch.inference_mode():
            self._open(rollout, version)
            noise = policy.head.noise((rollout.steps, rollout.slots), self.generator).to(self._device)
            self._step_all(policy, rollout, noise)
            self._close(rollout)
            self._evaluate(policy, rollout)
        rollout.seconds = time.perf_counter() - started

    def _open(self, rollout: Rollout, version: int) -> None:
        carry = self.carry
        self._obs_rows = tuple(leaf.numpy() for leaf in rollout.obs)
        for into, rows in zip(self._obs_rows, carry.obs, strict=True):
            into[0] = rows
        rollout.starts[0], self._state = carry.starts, carry.state
        if rollout.masks is not None:
            rollout.masks.fill_(True)
            rollout.masks[0].numpy()[...] = carry.masks
        rollout.versions.fill(version)
        rollout.episodes.clear()
        rollout.finals.clear()

    def _step_all(self, policy: Policy, rollout: Rollout, noise: Tensor) -> None:
        """The inner loop; everything that can wait is done after it, in ``_evaluate``."""
        step, sample, to_env = self.pool.step, policy.head.sample, policy.head.to_env
        draws, actions, params = noise.unbind(0), rollout.actions.unbind(0), rollout.params.unbind(0)
        obs = list(zip(*(leaf.unbind(0) for leaf in rollout.obs), strict=True))
        for now in range(rollout.steps):
            outputs = self._forward(policy, rollout, obs[now], now)
            params[now].copy_(outputs)
            actions[now].copy_(sample(outputs, draws[now]))
            batch = step(to_env(actions[now].numpy()))
            self._store(rollout, now, ALL_SLOTS, batch)
            self._between_steps(batch)

    def _forward(self, policy: Policy, rollout: Rollout, obs: tuple[Tensor, ...], now: int) -> Tensor:
        """Parameters of the action distributions for one row of every slot."""
        if policy.recurrent is None:
            features: Tensor = policy.encoder(self._all_on_device(obs))
        else:
            if rollout.states is not None and self._state is not None and now % rollout.sequence == 0:
                rollout.states[now // rollout.sequence].copy_(self._state)
            starts = self._on_device(torch.from_numpy(rollout.starts[now]))
            features, self._state = policy.features(self._all_on_device(obs), self._state, starts)
        if rollout.features is not None:
            rollout.features[now].copy_(features)
        params: Tensor = policy.actor(features)
        return params if rollout.masks is None else policy.head.masked(params, self._on_device(rollout.masks[now]))

    def _between_steps(self, batch: Batch) -> None:
        if self._on_batch is not None:
            self._on_batch(batch)
        self._check_stopped()

    def _check_stopped(self) -> None:
        if self._stopped:
            raise CollectionStoppedError("collecting was stopped")

    def _store(self, rollout: Rollout, now: Row, slots: Any, batch: Batch) -> None:
        """Write the results of the actions at ``now`` in these slots."""
        for into, row in zip(self._obs_rows, self._observed(batch), strict=True):
            into[now + 1, slots] = row
        rollout.rewards[now, slots] = batch.reward
        rollout.terminated[now, slots] = batch.terminated
        rollout.truncated[now, slots] = batch.truncated
        rollout.valid[now, slots] = batch.valid
        if self._state is not None:
            rollout.starts[now + 1, slots] = self._starts(rollout, now, slots, batch)
        if batch.infos:
            self._store_infos(rollout, now, batch)
        if len(batch.episodes):
            self._store_episodes(rollout, now, batch)

    def _observed(self, batch: Batch) -> Rows:
        """The leaves of a batch of observations, in order, normalised if so configured."""
        obs = batch.obs
        rows = (obs,) if isinstance(obs, np.ndarray) else tuple(value for _, value in split(self._node, obs))
        if self.normaliser is None:
            return rows
        self.normaliser.learn(rows, batch.valid)
        return self.normaliser.apply(rows)

    def _starts(self, rollout: Rollout, now: Row, slots: Any, batch: Batch) -> Flags:
        """Where the next observation is the first of an episode, or follows a row that is not a true transition."""
        if self._same_step:
            return batch.terminated | batch.truncated | ~batch.valid
        ended = rollout.terminated[now - 1, slots] | rollout.truncated[now - 1, slots]
        before: Flags = np.where(np.asarray(now) > 0, ended, self.carry.ended[slots])
        return before | ~batch.valid

    def _store_infos(self, rollout: Rollout, now: Row, batch: Batch) -> None:
        infos, slots = batch.infos, batch.slots.tolist()
        rows = np.broadcast_to(now, len(slots)).tolist()
        if rollout.masks is not None and ACTION_MASK in infos:
            allowed = rollout.masks.numpy()
            for row in np.flatnonzero(infos[f"_{ACTION_MASK}"]).tolist():
                allowed[rows[row] + 1, slots[row]] = self._head.mask_row(infos[ACTION_MASK][row])
        if self._same_step and "final_obs" in infos:
            cut = infos["_final_obs"] & batch.truncated & ~batch.terminated & batch.valid
            for row in np.flatnonzero(cut).tolist():
                state = None if self._state is None else self._state[slots[row]].clone()
                leaves = self._final_leaves(infos["final_obs"][row])
                rollout.finals.append(FinalObs(rows[row], slots[row], leaves, state))

    def _final_leaves(self, obs: Any) -> Rows:
        rows = tuple(np.asarray(value)[None] for _, value in split(self._node, obs))
        return rows if self.normaliser is None else self.normaliser.apply(rows)

    def _store_episodes(self, rollout: Rollout, now: Row, batch: Batch) -> None:
        ended = batch.episodes
        rows = dict(zip(batch.slots.tolist(), np.broadcast_to(now, len(batch)).tolist(), strict=True))
        columns = (ended.slots.tolist(), ended.returns.tolist(), ended.lengths.tolist(), ended.times_s.tolist())
        rollout.episodes += [EndedEpisode(rows[row[0]], *row) for row in zip(*columns, strict=True)]

    def _close(self, rollout: Rollout) -> None:
        """Mark the rows to learn from, and keep what the next rollout starts from."""
        ended = rollout.ended
        rollout.learned[...] = rollout.valid
        if not self._same_step:
            rollout.learned[1:] &= ~ended[:-1]
            rollout.learned[0] &= ~self.carry.ended
        self._carry = Carry(
            obs=tuple(rows[-1].copy() for rows in self._obs_rows),
            ended=ended[-1].copy(),
            starts=rollout.starts[-1].copy(),
            state=self._state,
            masks=None if rollout.masks is None else rollout.masks[-1].numpy().copy(),
        )

    def _evaluate(self, policy: Policy, rollout: Rollout) -> None:
        """Values and log-probabilities of all rows at once: acting does not need them."""
        inputs = rollout.obs[0][:-1] if rollout.features is None else rollout.features
        values = policy.values(self._on_device(inputs.flatten(0, 1))).view(rollout.steps, rollout.slots)
        newest, starts = tuple(leaf[-1] for leaf in rollout.obs), torch.from_numpy(rollout.starts[-1])
        last, _ = policy.features(self._all_on_device(newest), self._state, self._on_device(starts))
        rollout.values[:-1], rollout.values[-1] = values.cpu().numpy(), policy.values(last).cpu().numpy()
        params, actions = self._on_device(rollout.params), self._on_device(rollout.actions)
        rollout.log_probs.copy_(policy.head.log_prob(params, actions))
        rollout.final_values[...] = rollout.values[1:]
        if rollout.finals:
            self._evaluate_finals(policy, rollout)

    def _evaluate_finals(self, policy: Policy, rollout: Rollout) -> None:
        finals = rollout.finals
        joined = tuple(
            torch.from_numpy(np.concatenate(rows)).to(self._device, leaf.dtype)
            for leaf, rows in zip(rollout.obs, zip(*(final.leaves for final in finals), strict=True), strict=True)
        )
        states = [final.state for final in finals if final.state is not None]
        starts = torch.zeros(len(finals), dtype=torch.bool, device=self._device)
        features, _ = policy.features(joined, torch.stack(states) if states else None, starts)
        at = [final.row for final in finals], [final.slot for final in finals]
        rollout.final_values[at] = policy.values(features).cpu().numpy()

    def _on_device(self, rows: Tensor) -> Tensor:
        return rows if self._device.type == "cpu" else rows.to(self._device)

    def _all_on_device(self, leaves: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return leaves if self._device.type == "cpu" else tuple(leaf.to(self._device) for leaf in leaves)

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next rollout depends on, except weights and environments."""
        carry = self.carry
        return {
            "obs": [rows.copy() for rows in carry.obs],
            "ended": carry.ended.copy(),
            "starts": carry.starts.copy(),
            "state": None if carry.state is None else carry.state.cpu().clone(),
            "masks": None if carry.masks is None else carry.masks.copy(),
            "noise": self.generator.get_state(),
            "normaliser": None if self.normaliser is None else self.normaliser.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        slots = self.pool.num_envs
        shapes = [(slots, *(leaf.shape or ())) for _, leaf in leaf_spaces(self.pool.observation_space)]
        obs = tuple(_saved_rows(rows, shape, "biuf") for rows, shape in zip(state["obs"], shapes, strict=True))
        ended, starts = (_saved_rows(state[name], (slots,), "b") for name in ("ended", "starts"))
        masks = None if state["masks"] is None else _saved_rows(state["masks"], (slots, self._head.mask_size), "b")
        recurrent = None
        if self._first_state is not None:
            recurrent = self._on_device(torch.as_tensor(state["state"]).reshape(self._first_state.shape))
        self._carry = Carry(obs, ended, starts, recurrent, masks)
        self.generator.set_state(torch.as_tensor(state["noise"]))
        if self.normaliser is not None:
            self.normaliser.load_state_dict(state["normaliser"])


def _saved_rows(rows: Any, shape: tuple[int, ...], kinds: str) -> npt.NDArray[Any]:
    """Rows of a checkpoint, which may not be what they should be."""
    if not isinstance(rows, np.ndarray) or rows.shape != shape or rows.dtype.kind not in kinds:
        raise ValueError(f"rows of the shape {shape} were expected, not {str(rows)[:40]}")
    return rows
