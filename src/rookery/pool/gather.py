"""Rows of the slab to a ``Batch``: copies or views, infos merged, masked rows made harmless.

Reads what workers have published and nothing else. The common batch (every slot, nothing to say) costs a handful of
array copies; everything rarer is behind one test of the attention bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rookery.errors import Fault
from rookery.pool.batch import NO_EPISODES, Batch, Episodes
from rookery.spec.arrays import Leaf, assemble, leaves
from rookery.spec.autoreset import Autoreset
from rookery.spec.data import DataSpec
from rookery.spec.infos import add_info
from rookery.spec.phase import Attention
from rookery.transport.control import Control
from rookery.transport.mailbox import TO_PARENT, Mailbox

Index = npt.NDArray[np.int64] | slice


class Gatherer:
    """Builds batches for one pool."""

    def __init__(
        self, data: DataSpec, arrays: Mapping[str, npt.NDArray[Any]], control: Control, mail: Mailbox, slots: int,
        autoreset: Autoreset, copy: bool,
    ) -> None:  # fmt: skip
        self._data, self._arrays, self._control, self._mail = data, arrays, control, mail
        self._same_step, self._copy = autoreset is Autoreset.SAME_STEP, copy
        self.all_slots = np.arange(slots)
        self.all_slots.flags.writeable = False
        self._everybody = slice(None)
        self._has_objects = any(leaf.dtype is None for leaf in leaves(data.observation))
        leaf = data.observation
        self._plain = arrays[f"obs:{leaf.name}"] if isinstance(leaf, Leaf) and leaf.dtype else None
        self._kept_objects: dict[int, dict[str, Any]] = {}

    def everybody(self, attention: int) -> Batch:
        """Every slot, none of them masked."""
        control = self._control
        if attention:
            return self._full(self.all_slots, self._everybody, attention, None, {})
        obs = self._plain if self._plain is not None and not self._copy else self._observe(self._everybody, self.all_slots, {})
        valid = np.ones(len(self.all_slots), np.bool_)
        if self._copy:
            return Batch(
                obs, control.reward.copy(), control.terminated.copy(), control.truncated.copy(), valid, self.all_slots
            )
        return Batch(obs, control.reward, control.terminated, control.truncated, valid, self.all_slots)

    def some(
        self, slots: npt.NDArray[np.int64], attention: int, masked: npt.NDArray[np.bool_] | None, faults: Mapping[int, Fault]
    ) -> Batch:
        """These slots; ``masked`` rows carry no true transition, ``faults`` maps slots to what broke them now."""
        return self._full(slots, slots, attention, masked, faults)

    def _full(
        self, slots: npt.NDArray[np.int64], index: Index, attention: int, masked: npt.NDArray[np.bool_] | None,
        faults: Mapping[int, Fault],
    ) -> Batch:  # fmt: skip
        control = self._control
        letters = self._letters(slots, masked) if attention & Attention.MAIL or self._has_objects else {}
        obs = self._observe(index, slots, letters)
        reward, terminated = control.reward[index].copy(), control.terminated[index].copy()
        truncated, valid = control.truncated[index].copy(), np.ones(len(slots), np.bool_)
        if masked is not None:
            valid[masked] = False
            reward[masked], terminated[masked], truncated[masked] = 0.0, False, False
            truncated[masked] = [int(slot) in faults for slot in slots[masked]]
        infos = self._infos(slots, index, letters, faults, valid)
        episodes = self._episodes(slots, valid & (terminated | truncated)) if attention & Attention.ENDED else NO_EPISODES
        return Batch(obs, reward, terminated, truncated, valid, slots, infos, episodes)

    def _letters(self, slots: npt.NDArray[np.int64], masked: npt.NDArray[np.bool_] | None) -> dict[int, dict[str, Any]]:
        """Letters by row. Masked rows have none: what lies there is a fault's."""
        out = {}
        nbytes = self._control.mail_bytes[slots]
        for row in np.flatnonzero(nbytes):
            if masked is None or not masked[row]:
                out[int(row)] = self._mail.get(int(slots[row]), TO_PARENT, int(nbytes[row]))
        return out

    def _observe(self, index: Index, slots: npt.NDArray[np.int64], letters: Mapping[int, Mapping[str, Any]]) -> Any:
        if self._plain is not None:
            rows = self._plain[index]
            return rows.copy() if self._copy and isinstance(index, slice) else rows
        for row, letter in letters.items():
            if letter.get("objects"):
                self._kept_objects[int(slots[row])] = letter["objects"]

        def batch_of(leaf: Leaf) -> Any:
            if leaf.dtype is None:
                return tuple(self._kept_objects.get(int(slot), {}).get(leaf.name) for slot in slots)
            rows = self._arrays[f"obs:{leaf.name}"][index]
            return rows.copy() if self._copy and isinstance(index, slice) else rows

        return assemble(self._data.observation, batch_of)

    def _infos(
        self, slots: npt.NDArray[np.int64], index: Index, letters: Mapping[int, Mapping[str, Any]],
        faults: Mapping[int, Fault], valid: npt.NDArray[np.bool_],
    ) -> dict[str, Any]:  # fmt: skip
        infos: dict[str, Any] = {}
        size = len(slots)
        for row, letter in letters.items():
            if "final_info" in letter:
                final = {"final_obs": self._final(int(slots[row]), letter), "final_info": letter["final_info"]}
                add_info(infos, final, row, size)
            add_info(infos, letter["info"], row, size)
        for key in self._data.infos:
            has = self._arrays[f"has:{key}"][index] & valid
            if has.any():
                infos[key], infos[f"_{key}"] = np.where(has, self._arrays[f"info:{key}"][index], 0), has
        if faults:
            for row, slot in enumerate(slots):
                if int(slot) in faults:
                    add_info(infos, {"fault": faults[int(slot)]}, row, size)
        return infos

    def _final(self, slot: int, letter: Mapping[str, Any]) -> Any:
        """The true last observation of an episode that was reset in the same step."""

        def value_of(leaf: Leaf) -> Any:
            if leaf.dtype is None:
                return letter["final_objects"][leaf.name]
            value = self._arrays[f"final:{leaf.name}"][slot]
            return value.copy() if isinstance(value, np.ndarray) else value

        return assemble(self._data.observation, value_of)

    def _episodes(self, slots: npt.NDArray[np.int64], ended: npt.NDArray[np.bool_]) -> Episodes:
        who, control = slots[ended], self._control
        return Episodes(who, control.episode_return[who], control.episode_length[who], control.episode_time_s[who])

    def blank(self, slot: int) -> None:
        """A row that was torn by a death holds no observation; make it zeros rather than half of one."""
        for leaf in leaves(self._data.observation):
            if leaf.dtype is not None:
                self._arrays[f"obs:{leaf.name}"][slot] = 0
        self._control.torn[slot] = 0
