"""Rows of the slab to a ``Batch``: copies or views, infos merged, masked rows made harmless.

Reads what workers have published and nothing else. The common batch (every slot, no messages) costs a handful of array
copies; everything rarer is behind one test of the attention bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ninelives.errors import Fault
from ninelives.native import native_module
from ninelives.pool.batch import NO_EPISODES, Batch, Episodes
from ninelives.spec.arrays import DictNode, Leaf, Node, assemble, leaves
from ninelives.spec.data import DataSpec
from ninelives.spec.infos import add_info
from ninelives.spec.phase import Attention
from ninelives.spec.plan import Plan, Slots
from ninelives.transport.control import Control
from ninelives.transport.mailbox import TO_PARENT, Mailbox

Mask = npt.NDArray[np.bool_]
Messages = Mapping[int, Mapping[str, Any]]
ALL_ROWS = slice(None)


class Gatherer:
    """Builds batches for one pool."""

    def __init__(
        self,
        data: DataSpec,
        arrays: Mapping[str, npt.NDArray[Any]],
        control: Control,
        mail: Mailbox,
        slots: int,
        copy: bool,
    ) -> None:
        self._data, self._arrays, self._control, self._mail, self._copy = data, arrays, control, mail, copy
        self.all_slots = np.arange(slots)
        self.all_slots.flags.writeable = False
        self._all_valid = np.ones(slots, np.bool_)
        leaf = data.observation
        self._plain = arrays[f"obs:{leaf.name}"] if isinstance(leaf, Leaf) and leaf.dtype else None
        self._kept_objects: dict[int, Mapping[str, Any]] = {}
        # Common batches natively: the observation's arrays, the other three and the mask of ones copied in one call.
        found = list(leaves(data.observation))
        parts = tuple(arrays[f"obs:{leaf.name}"] for leaf in found if leaf.dtype)
        keys = _keys_of(data.observation)
        self._is_nested = self._plain is None and keys is None
        self._keys = None if self._plain is not None else keys or tuple(leaf.name for leaf in found)
        self._native: Any = native_module("ninelives.pool.data._batch") if copy and len(parts) == len(found) else None
        self._common = (*parts, control.reward, control.terminated, control.truncated, self._all_valid)
        self._records = (control.episode_return, control.episode_length, control.episode_time_s)

    def full_batch(self, attention: int) -> Batch:
        """Every slot, none of them masked: the common case."""
        slots = self.all_slots
        if self._native is not None and not attention & Attention.MAIL:
            return self._common_batch(slots, False, attention)
        control, valid = self._control, self._all_valid.copy()
        messages = self._messages(slots, None) if attention & Attention.MAIL else {}
        obs = self._observe(ALL_ROWS, slots, messages)
        reward, terminated, truncated = control.reward, control.terminated, control.truncated
        if self._copy:
            reward, terminated, truncated = reward.copy(), terminated.copy(), truncated.copy()
        infos = self._infos(slots, messages, {}, valid) if attention & Attention.MAIL else {}
        episodes = self._episodes(slots, terminated | truncated) if attention & Attention.ENDED else NO_EPISODES
        return Batch(obs, reward, terminated, truncated, valid, slots, infos, episodes)

    def partial_batch(self, slots: Slots, attention: int) -> Batch:
        """These slots, none of them masked: the common case of first-ready batches."""
        if self._native is not None and not attention & Attention.MAIL:
            return self._common_batch(slots, True, attention)
        control, valid = self._control, np.ones(len(slots), np.bool_)
        messages = self._messages(slots, None) if attention & Attention.MAIL else {}
        obs = self._observe(slots, slots, messages)
        reward, terminated, truncated = control.reward[slots], control.terminated[slots], control.truncated[slots]
        infos = self._infos(slots, messages, {}, valid) if attention & Attention.MAIL else {}
        episodes = self._episodes(slots, terminated | truncated) if attention & Attention.ENDED else NO_EPISODES
        return Batch(obs, reward, terminated, truncated, valid, slots, infos, episodes)

    def _common_batch(self, slots: Slots, some: bool, attention: int) -> Batch:
        batch: Batch = self._native.batch(Batch, slots, some, self._common, self._keys, NO_EPISODES)
        if attention & Attention.ENDED:
            batch.episodes = Episodes(*self._native.ended(slots, batch.terminated, batch.truncated, *self._records))
        if self._is_nested:
            parts = batch.obs
            batch.obs = assemble(self._data.observation, lambda leaf: parts[leaf.name])
        return batch

    def careful_batch(
        self, slots: Slots, attention: int, masked: Mask, silent: Mask, faults: Mapping[int, Fault]
    ) -> Batch:
        """These slots, some of them perhaps masked.

        ``masked`` rows carry no true transition, ``silent`` ones not even an info; ``faults`` maps slots to what broke
        them now.
        """
        control, valid = self._control, ~masked
        messages = self._messages(slots, silent) if attention & Attention.MAIL else {}
        obs = self._observe(slots, slots, messages)
        reward, terminated, truncated = control.reward[slots], control.terminated[slots], control.truncated[slots]
        reward[masked], terminated[masked] = 0.0, False
        truncated[masked] = [slot in faults for slot in slots[masked].tolist()]
        infos = self._infos(slots, messages, faults, ~silent) if faults or attention & Attention.MAIL else {}
        ended = valid & (terminated | truncated)
        episodes = self._episodes(slots, ended) if attention & Attention.ENDED else NO_EPISODES
        return Batch(obs, reward, terminated, truncated, valid, slots, infos, episodes)

    def slots_of(self, groups: list[int], plan: Plan) -> Slots:
        """The slots of some groups, end to end."""
        if self._native is not None and plan.even_groups is not None:
            slots: Slots = self._native.slots_of(groups, plan.even_groups)
            return slots
        return np.concatenate([plan.group_rows[g] for g in groups])

    def blank(self, slot: int) -> None:
        """A worker died while it wrote this row: make it zeros rather than half of an observation."""
        for leaf in leaves(self._data.observation):
            if leaf.dtype is not None:
                self._arrays[f"obs:{leaf.name}"][slot] = 0
        self._control.torn[slot] = 0

    def objects_of(self, slot: int) -> Mapping[str, Any]:
        """The parts of a slot's newest observation that are not arrays."""
        return self._kept_objects.get(slot, {})

    def keep_objects(self, slot: int, objects: Mapping[str, Any]) -> None:
        """A slot was put into a state with these objects."""
        self._kept_objects[slot] = objects

    def _messages(self, slots: Slots, silent: Mask | None) -> Messages:
        """Messages by row. Silent rows have none: what is there is an older one, or a fault's."""
        nbytes = self._control.mail_bytes[slots]
        if silent is not None:
            nbytes[silent] = 0
        return {
            row: self._mail.get_plain(int(slots[row]), TO_PARENT, int(nbytes[row]))
            for row in np.flatnonzero(nbytes).tolist()
        }

    def _observe(self, index: Slots | slice, slots: Slots, messages: Messages) -> Any:
        copy = self._copy and index is ALL_ROWS  # an index array copies anyway
        if self._plain is not None:
            return self._plain.copy() if copy else self._plain[index]
        for row, message in messages.items():
            if message["objects"]:
                self._kept_objects[int(slots[row])] = message["objects"]

        def batch_of(leaf: Leaf) -> Any:
            if leaf.dtype is None:
                return tuple(self._kept_objects.get(slot, {}).get(leaf.name) for slot in slots.tolist())
            rows = self._arrays[f"obs:{leaf.name}"]
            return rows.copy() if copy else rows[index]

        return assemble(self._data.observation, batch_of)

    def _infos(self, slots: Slots, messages: Messages, faults: Mapping[int, Fault], spoke: Mask) -> dict[str, Any]:
        infos: dict[str, Any] = {}
        size = len(slots)
        for row, message in messages.items():
            if "final_info" in message:
                final = {"final_obs": self._final(int(slots[row]), message), "final_info": message["final_info"]}
                add_info(infos, final, row, size)
            add_info(infos, message["info"], row, size)
        for key in self._data.infos:
            has = self._arrays[f"has:{key}"][slots] & spoke
            if has.any():
                values = self._arrays[f"info:{key}"][slots]
                values[~has] = 0
                infos[key], infos[f"_{key}"] = values, has
        for row, slot in enumerate(slots.tolist()):
            if slot in faults:
                add_info(infos, {"fault": faults[slot]}, row, size)
        return infos

    def _final(self, slot: int, message: Mapping[str, Any]) -> Any:
        """The true last observation of an episode that was reset in the same step."""

        def value_of(leaf: Leaf) -> Any:
            if leaf.dtype is None:
                return message["final_objects"][leaf.name]
            value = self._arrays[f"final:{leaf.name}"][slot]
            return value.copy() if isinstance(value, np.ndarray) else value

        return assemble(self._data.observation, value_of)

    def _episodes(self, slots: Slots, ended: Mask) -> Episodes:
        who, control = slots[ended], self._control
        return Episodes(who, control.episode_return[who], control.episode_length[who], control.episode_time_s[who])


def _keys_of(node: Node) -> tuple[str, ...] | None:
    """The keys of a Dict of which no part is nested, the most common structure; None for every other."""
    if not isinstance(node, DictNode) or not all(isinstance(child, Leaf) for _, child in node.children):
        return None
    return tuple(key for key, _ in node.children)
