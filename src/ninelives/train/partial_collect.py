"""Collects rollouts from some slots at a time: while these step, the policy acts for others.

======================  ============================================================================================
``pool.split=2``        even and odd slots alternate; a half is handled when all of its slots have answered, so the
                        rows that are computed together never depend on which slot was fast
``pool.ready=k``        slots that have answered are handled k at a time; a fast slot may run ahead of a slow one
                        until both have filled the rollout
======================  ============================================================================================

Each slot has its own row number in the rollout, and its noise belongs to that row. Must never learn.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ninelives.pool.batch import Batch
from ninelives.train.collect import Collector, Flags
from ninelives.train.policy.nets import Policy
from ninelives.train.rollout import Rollout

Slots = npt.NDArray[np.int64]


class PartialCollector(Collector, abc.ABC):
    """Steps a pool with a policy, some slots at a time; subclasses choose which."""

    def _step_all(self, policy: Policy, rollout: Rollout, noise: Tensor) -> None:
        rows = np.zeros(rollout.slots, np.int64)
        answered = np.ones(rollout.slots, np.bool_)
        left = rollout.slots * rollout.steps
        while left:
            for part in self._ready_parts(answered):
                answered[part] = False
                unfinished = part[rows[part] < rollout.steps]
                if len(unfinished):
                    self._send(policy, rollout, noise, rows, unfinished)
            batch = self._receive(rollout, rows)
            answered[batch.slots] = True
            left -= len(batch)
        self._between_steps(self.pool.latest())

    @abc.abstractmethod
    def _ready_parts(self, answered: Flags) -> Iterator[Slots]:
        """Slots to act for now, each array in one forward pass; a yielded slot no longer counts as answered."""

    def _send(self, policy: Policy, rollout: Rollout, noise: Tensor, rows: Slots, slots: Slots) -> None:
        now, which = torch.from_numpy(rows[slots]), torch.from_numpy(slots)
        params = self._forward_some(policy, rollout, now, which)
        actions = policy.head.sample(params, noise[now, which])
        rollout.params[now, which] = params.cpu()
        rollout.actions[now, which] = actions.cpu()
        self.pool.send(policy.head.to_env(actions.cpu().numpy()), slots)

    def _forward_some(self, policy: Policy, rollout: Rollout, now: Tensor, slots: Tensor) -> Tensor:
        obs = self._all_on_device(tuple(leaf[now, slots] for leaf in rollout.obs))
        if policy.recurrent is None:
            features: Tensor = policy.encoder(obs)
        else:
            assert self._state is not None
            self._keep_states(rollout, now, slots)
            starts = self._on_device(torch.from_numpy(rollout.starts)[now, slots])
            features, after = policy.features(obs, self._state[slots], starts)
            assert after is not None
            self._state = self._state.index_copy(0, self._on_device(slots), after)
        if rollout.features is not None:
            rollout.features[now, slots] = features.cpu()
        params: Tensor = policy.actor(features)
        if rollout.masks is None:
            return params
        return policy.head.masked(params, self._on_device(rollout.masks[now, slots]))

    def _keep_states(self, rollout: Rollout, now: Tensor, slots: Tensor) -> None:
        assert rollout.states is not None
        assert self._state is not None
        first = now % rollout.sequence == 0
        rollout.states[now[first] // rollout.sequence, slots[first]] = self._state[slots[first]].cpu()

    def _receive(self, rollout: Rollout, rows: Slots) -> Batch:
        batch = self.pool.recv()
        self._store(rollout, rows[batch.slots], batch.slots, batch)
        rows[batch.slots] += 1
        self._check_stopped()
        return batch


class SplitCollector(PartialCollector):
    """Even and odd slots alternate."""

    _turn = 0

    def _step_all(self, policy: Policy, rollout: Rollout, noise: Tensor) -> None:
        self._turn = 0
        super()._step_all(policy, rollout, noise)

    def _ready_parts(self, answered: Flags) -> Iterator[Slots]:
        while answered[self._turn :: 2].all():
            part = np.arange(self._turn, len(answered), 2)
            self._turn = 1 - self._turn
            yield part


class FirstReadyCollector(PartialCollector):
    """All slots that have answered."""

    def _ready_parts(self, answered: Flags) -> Iterator[Slots]:
        yield np.flatnonzero(answered)
