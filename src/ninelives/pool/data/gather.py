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
from ninelives.pool.data.infos import InfoReader
from ninelives.pool.data.texts import TextReader
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
WITH_INFOS = Attention.MAIL | Attention.INFO


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
        self.reader = InfoReader(arrays, control, mail)
        # Common batches natively: the observation's arrays, the other three and the mask of ones copied in one call.
        found = list(leaves(data.observation))
        parts = tuple(arrays[f"obs:{leaf.name}"] for leaf in found if leaf.dtype)
        keys = _keys_of(data.observation)
        self._texts = {leaf.name: TextReader(arrays[f"text:{leaf.name}"]) for leaf in found if leaf.is_text}
        self._is_nested = self._plain is None and (keys is None or bool(self._texts))
        names = tuple(leaf.name for leaf in found if leaf.dtype)
        self._keys = None if self._plain is not None else names if self._is_nested else keys
        has_place = len(parts) + len(self._texts) == len(found)
        self._native: Any = native_module("ninelives.pool.data._batch") if copy and has_place else None
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
        infos = self._infos(slots, messages, {}) if attention & WITH_INFOS else {}
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
        infos = self._infos(slots, messages, {}) if attention & WITH_INFOS else {}
        episodes = self._episodes(slots, terminated | truncated) if attention & Attention.ENDED else NO_EPISODES
        return Batch(obs, reward, terminated, truncated, valid, slots, infos, episodes)

    def _common_batch(self, slots: Slots, some: bool, attention: int) -> Batch:
        batch: Batch = self._native.batch(Batch, slots, some, self._common, self._keys, NO_EPISODES)
        if attention & Attention.ENDED:
            batch.episodes = Episodes(*self._native.ended(slots, batch.terminated, batch.truncated, *self._records))
        if attention & Attention.INFO:
            batch.infos = self._infos(slots, {}, {})
        if self._is_nested:
            parts = batch.obs
            batch.obs = assemble(
                self._data.observation, lambda leaf: parts[leaf.name] if leaf.dtype else self._objects(leaf, slots)
            )
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
        infos = self._infos(slots, messages, faults, silent) if faults or attention & WITH_INFOS else {}
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
        for texts in self._texts.values():
            texts.put(slot, "")
        self._control.torn[slot] = 0

    def objects_of(self, slot: int) -> Mapping[str, Any]:
        """The parts of a slot's newest observation that are not arrays."""
        texts = {name: reader.read([slot])[0] for name, reader in self._texts.items()}
        written = {name: text for name, text in texts.items() if text is not None}
        return {**self._kept_objects.get(slot, {}), **written}

    def keep_objects(self, slot: int, objects: Mapping[str, Any]) -> None:
        """A slot was put into a state with these objects."""
        self._kept_objects[slot] = objects
        for name, texts in self._texts.items():
            texts.put(slot, objects.get(name))

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
                return self._objects(leaf, slots)
            rows = self._arrays[f"obs:{leaf.name}"]
            return rows.copy() if copy else rows[index]

        return assemble(self._data.observation, batch_of)

    def _objects(self, leaf: Leaf, slots: Slots) -> tuple[Any, ...]:
        """One object of each slot: a text in the slab, or what came by mail."""
        texts = self._texts[leaf.name].read(slots) if leaf.is_text else (None,) * len(slots)
        if leaf.is_text and None not in texts:
            return texts
        kept = (self._kept_objects.get(slot, {}).get(leaf.name) for slot in slots.tolist())
        return tuple(old if text is None else text for text, old in zip(texts, kept, strict=True))

    def _infos(
        self, slots: Slots, messages: Messages, faults: Mapping[int, Fault], silent: Mask | None = None
    ) -> dict[str, Any]:
        by_mail = any(message["info"] or "final_info" in message for message in messages.values())
        some = None if slots is self.all_slots else slots
        words = self.reader.words(some, silent)
        infos = None if by_mail else self.reader.columns(words, some)
        if infos is None:
            infos = self._merged(slots, messages, words)
        if self._data.infos:
            self._add_declared(infos, slots, silent)
        if faults:
            for row, slot in enumerate(slots.tolist()):
                if slot in faults:
                    add_info(infos, {"fault": faults[slot]}, row, len(slots))
        return infos

    def _merged(self, slots: Slots, messages: Messages, words: list[int]) -> dict[str, Any]:
        """Infos row by row: some came by mail, or slots disagree about a key."""
        infos: dict[str, Any] = {}
        size = len(slots)
        for row, (slot, word) in enumerate(zip(slots.tolist(), words, strict=True)):
            message = messages.get(row, {})
            if "final_info" in message:
                final = {"final_obs": self._final(slot, message), "final_info": message["final_info"]}
                add_info(infos, final, row, size)
            info = self.reader.info(slot, word) if word else message.get("info")
            if info:
                add_info(infos, info, row, size)
        return infos

    def _add_declared(self, infos: dict[str, Any], slots: Slots, silent: Mask | None) -> None:
        for key in self._data.infos:
            has = self._arrays[f"has:{key}"][slots]
            if silent is not None:
                has &= ~silent
            if has.any():
                values = self._arrays[f"info:{key}"][slots]
                values[~has] = 0
                infos[key], infos[f"_{key}"] = values, has

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
