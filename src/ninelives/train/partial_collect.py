"""Collects rollouts part by part: while some slots step, others are thought about.

======================  ==========================================================================================
``pool.split=2``        even and odd slots take turns; a half is thought about when all of it has answered, so what
                        is computed together never depends on who was fast
``pool.ready=k``        whoever has answered is thought about, k slots at a time; a fast slot may run ahead of a slow
                        one until both have a whole rollout
======================  ==========================================================================================

Each slot has its own place in the rollout, and its noise belongs to that place.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ninelives.pool.batch import Batch
from ninelives.train.collect import Collector, Flags, StoppedError
from ninelives.train.policy.nets import Policy
from ninelives.train.rollout import Rollout

Slots = npt.NDArray[np.int64]


class PartsCollector(Collector, abc.ABC):
    """Steps a pool with a policy, some slots at a time; which, is for its children to say."""

    def _step_all(self, policy: Policy, rollout: Rollout, noise: Tensor) -> None:
        at = np.zeros(rollout.slots, np.int64)
        answered = np.ones(rollout.slots, np.bool_)
        left = rollout.slots * rollout.steps
        while left:
            for part in self._ready_parts(answered):
                answered[part] = False
                going_on = part[at[part] < rollout.steps]
                if len(going_on):
                    self._send(policy, rollout, noise, at, going_on)
            batch = self._receive(rollout, at)
            answered[batch.slots] = True
            left -= len(batch)
        self._pause(self.pool.latest())

    @abc.abstractmethod
    def _ready_parts(self, answered: Flags) -> Iterator[Slots]:
        """Slots to think about now, together; they count as not answered once they are given."""

    def _send(self, policy: Policy, rollout: Rollout, noise: Tensor, at: Slots, slots: Slots) -> None:
        now = torch.from_numpy(at[slots])
        who = torch.from_numpy(slots)
        numbers = self._think_some(policy, rollout, now, who)
        actions = policy.head.sample(numbers, noise[now, who])
        rollout.params[now, who] = numbers.cpu()
        rollout.actions[now, who] = actions.cpu()
        self.pool.send(policy.head.to_env(actions.cpu().numpy()), slots)

    def _think_some(self, policy: Policy, rollout: Rollout, now: Tensor, who: Tensor) -> Tensor:
        obs = self._all_there(tuple(leaf[now, who] for leaf in rollout.obs))
        if policy.memory is None:
            features: Tensor = policy.encoder(obs)
        else:
            assert self._state is not None
            self._keep_states(rollout, now, who)
            starts = self._there(torch.from_numpy(rollout.starts)[now, who])
            features, after = policy.features(obs, self._state[who], starts)
            assert after is not None
            self._state = self._state.index_copy(0, self._there(who), after)
        if rollout.features is not None:
            rollout.features[now, who] = features.cpu()
        numbers: Tensor = policy.actor(features)
        return numbers if rollout.masks is None else policy.head.masked(numbers, self._there(rollout.masks[now, who]))

    def _keep_states(self, rollout: Rollout, now: Tensor, who: Tensor) -> None:
        assert rollout.states is not None
        assert self._state is not None
        first = now % rollout.sequence == 0
        rollout.states[now[first] // rollout.sequence, who[first]] = self._state[who[first]].cpu()

    def _receive(self, rollout: Rollout, at: Slots) -> Batch:
        batch = self.pool.recv()
        self._take(rollout, at[batch.slots], batch.slots, batch)
        at[batch.slots] += 1
        if self._stopped:
            raise StoppedError("collecting was stopped")
        return batch


class HalvesCollector(PartsCollector):
    """Even and odd slots in turn."""

    _turn = 0

    def _step_all(self, policy: Policy, rollout: Rollout, noise: Tensor) -> None:
        self._turn = 0
        super()._step_all(policy, rollout, noise)

    def _ready_parts(self, answered: Flags) -> Iterator[Slots]:
        while answered[self._turn :: 2].all():
            part = np.arange(self._turn, len(answered), 2)
            self._turn = 1 - self._turn
            yield part


class ReadyCollector(PartsCollector):
    """Whoever is ready."""

    def _ready_parts(self, answered: Flags) -> Iterator[Slots]:
        yield np.flatnonzero(answered)
