"""One slot's rows of the data slab: write observations and infos, read actions.

What is an array of known type goes into the slab; everything else travels by mailbox. Never calls the environment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ninelives.errors import TransportError
from ninelives.spec.arrays import BadValueError, Leaf, assemble, checked_leaf, leaves, split
from ninelives.spec.data import DataSpec
from ninelives.spec.phase import Attention
from ninelives.spec.text import NO_TEXT, put_text, text_row
from ninelives.transport.control import Control
from ninelives.transport.mailbox import TO_PARENT, TO_WORKER, Mailbox
from ninelives.transport.plain_pickle import RefusedTypeError
from ninelives.worker.infos import UNKNOWN, InfoWriter

PART_NAMES = {"info": "info", "final_info": "final_info", "objects": "observation", "final_objects": "final_obs"}
"""The parts of a message as an author of environments knows them."""


class SlotRows:
    """The rows of one slot. ``objects`` are the parts of the newest observation that are still to be sent by mail."""

    def __init__(
        self,
        index: int,
        control: Control,
        mail: Mailbox,
        data: DataSpec,
        arrays: Mapping[str, npt.NDArray[Any]],
        check: str,
    ) -> None:
        self._index, self._control, self._mail = index, control, mail
        self._data, self._check = data, check
        self._declared = {key: (arrays[f"info:{key}"], arrays[f"has:{key}"]) for key in data.infos}
        self.infos = InfoWriter(index, control, mail, arrays["infos"], data.wanted)
        self.observation = self._views(data.observation, arrays, "obs")
        self.texts = {
            leaf.name: arrays[f"text:{leaf.name}"][index] for leaf in leaves(data.observation) if leaf.is_text
        }
        self._final = self._views(data.observation, arrays, "final")
        self._action = self._views(data.action, arrays, "action")
        self._action_by_mail = any(leaf.dtype is None for leaf in leaves(data.action))
        self.objects: dict[str, Any] = {}
        self.write_native: Callable[[int, Any], bool] | None = None

    def _views(self, node: Any, arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> dict[str, npt.NDArray[Any]]:
        # A slice keeps zero-dimensional rows writable views: array[i] of a 1-d array would be a scalar copy.
        return {
            leaf.name: arrays[f"{prefix}:{leaf.name}"][self._index : self._index + 1].reshape(leaf.shape)
            for leaf in leaves(node)
            if leaf.dtype and f"{prefix}:{leaf.name}" in arrays
        }

    def read_action(self) -> Any:
        """The action in the space's own structure. Arrays are copies: an environment may keep its last action."""
        if self._action_by_mail:
            return self._mail.get(self._index, TO_WORKER, int(self._control.ask_bytes[self._index]))
        return assemble(self._data.action, self._action_leaf)

    def _action_leaf(self, leaf: Leaf) -> Any:
        row = self._action[leaf.name]
        return int(row) if leaf.is_scalar_int else row.copy()

    def put_obs(self, obs: Any) -> None:
        """Write an observation into the slot's row."""
        if self.write_native is not None and self.write_native(self._index, obs):
            self.objects = {}
        else:
            self.objects = self._write(self.observation, obs, self.texts)

    def put_final(self, obs: Any) -> dict[str, Any]:
        """Write a terminal observation beside the row; returns the parts that travel by mailbox."""
        return self._write(self._final, obs, {})

    def _write(
        self, rows: Mapping[str, npt.NDArray[Any]], obs: Any, texts: Mapping[str, npt.NDArray[np.uint8]]
    ) -> dict[str, Any]:
        """Write array leaves into ``rows`` and texts that fit into ``texts``; returns the other leaves.

        Everything is checked before anything is written: bad data leaves the last good row as it was. ``torn`` shows
        the parent whether the worker died in between.
        """
        objects: dict[str, Any] = {}
        arrays: dict[str, npt.NDArray[Any]] = {}
        for leaf, value in split(self._data.observation, obs):
            if leaf.dtype is None:
                objects[leaf.name] = value
            else:
                arrays[leaf.name] = checked_leaf(leaf, value, self._check)
        encoded = {name: text_row(objects[name]) for name in texts}
        self._control.torn[self._index] = 1
        for name, array in arrays.items():
            rows[name][...] = array
        for name, raw in encoded.items():
            put_text(texts[name], NO_TEXT if raw is None else raw)
            if raw is not None:
                del objects[name]
        self._control.torn[self._index] = 0
        return objects

    def put_info(
        self, info: Any, final_objects: dict[str, Any] | None = None, final_info: dict[str, Any] | None = None
    ) -> int:
        """Declared numbers go into the slab, the rest too if it is numbers, else by mailbox; returns attention bits."""
        rest, attention = self.wanted(info), Attention.MAIL if self._declared else Attention.NONE
        for key, (values, has) in self._declared.items():
            has[self._index] = key in rest
            if key in rest:
                values[self._index] = rest.pop(key)
        # The infos of two episodes in one answer travel together, so that they are merged in their order.
        bits = self.infos.put(rest) if final_info is None else self.infos.clear()
        if bits != UNKNOWN:
            attention, rest = attention | bits, {}
        if not rest and not self.objects and final_info is None:
            return attention
        message: dict[str, Any] = {"info": rest, "objects": self.objects}
        self.objects = {}
        if final_info is not None:
            message |= {"final_info": final_info, "final_objects": final_objects}
        self._control.mail_bytes[self._index] = self._put_plain(message)
        return attention | Attention.MAIL

    def wanted(self, info: Any) -> dict[str, Any]:
        """The part of an info that somebody reads."""
        wanted = self._data.wanted
        return {key: value for key, value in checked_info(info).items() if wanted is None or key in wanted}

    def copied(self, objects: dict[str, Any], info: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Copies of what travels by mail, for an environment that may use it again before it is sent."""
        plain = self._mail.plain
        try:
            copies: tuple[dict[str, Any], dict[str, Any]] = plain.loads(plain.dumps((objects, info)))
        except Exception as error:
            raise self._refusal({"info": info, "objects": objects}, error) from error
        return copies

    def _put_plain(self, message: Mapping[str, Any]) -> int:
        try:
            return self._mail.put_plain(self._index, TO_PARENT, message)
        except TransportError:
            raise
        except Exception as error:
            raise self._refusal(message, error) from error

    def _refusal(self, message: Mapping[str, Any], error: Exception) -> BadValueError:
        """Which part of a message could not be sent, and why."""
        for part, values in message.items():
            for key, value in (values or {}).items():
                try:
                    self._mail.plain.dumps(value)
                except Exception as cause:
                    return BadValueError(f"{PART_NAMES[part]}[{key!r}] cannot be sent: {_words(cause)}")
        return BadValueError(f"info cannot be sent: {_words(error)}")


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, RefusedTypeError) else f"{type(error).__name__}: {error}"


def checked_info(info: Any) -> Mapping[str, Any]:
    """The info, if it is a mapping."""
    if not isinstance(info, Mapping):
        raise BadValueError(f"info must be a dict, got {type(info).__name__}")
    return info
