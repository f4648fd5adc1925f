"""One slot's rows of the data slab: write observations and infos, read actions.

What is an array of known type goes into the slab; everything else travels by mailbox. Never calls the environment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy.typing as npt

from ninelives.errors import TransportError
from ninelives.spec.arrays import BadValueError, Leaf, assemble, checked_leaf, leaves, split
from ninelives.spec.data import DataSpec
from ninelives.spec.phase import Attention
from ninelives.transport.control import Control
from ninelives.transport.mailbox import TO_PARENT, TO_WORKER, Mailbox
from ninelives.transport.plain_pickle import RefusedTypeError

PART_NAMES = {"info": "info", "final_info": "final_info", "objects": "observation", "final_objects": "final_obs"}
"""The parts of a message as an author of environments knows them."""


class SlotRows:
    """The rows of one slot. ``objects`` are the parts of the newest observation that travel by mailbox."""

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
        self._infos = {key: (arrays[f"info:{key}"], arrays[f"has:{key}"]) for key in data.infos}
        self.observation = self._views(data.observation, arrays, "obs")
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
        if self.write_native is None or not self.write_native(self._index, obs):
            self.objects = self._write(self.observation, obs)

    def put_final(self, obs: Any) -> dict[str, Any]:
        """Write a terminal observation beside the row; returns the parts that travel by mailbox."""
        return self._write(self._final, obs)

    def _write(self, rows: Mapping[str, npt.NDArray[Any]], obs: Any) -> dict[str, Any]:
        """Write array leaves into ``rows``; returns the other leaves.

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
        self._control.torn[self._index] = 1
        for name, array in arrays.items():
            rows[name][...] = array
        self._control.torn[self._index] = 0
        return objects

    def put_info(
        self, info: Any, final_objects: dict[str, Any] | None = None, final_info: dict[str, Any] | None = None
    ) -> int:
        """Declared numbers go into the slab, the rest by mailbox if there is any; returns attention bits."""
        rest = dict(checked_info(info))
        for key, (values, has) in self._infos.items():
            has[self._index] = key in rest
            if key in rest:
                values[self._index] = rest.pop(key)
        if not rest and not self.objects and final_info is None:
            return Attention.MAIL if self._infos else Attention.NONE
        message: dict[str, Any] = {"info": rest, "objects": self.objects}
        if final_info is not None:
            message |= {"final_info": final_info, "final_objects": final_objects}
        self._control.mail_bytes[self._index] = self._put_plain(message)
        return Attention.MAIL

    def copied(self, objects: dict[str, Any], info: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Copies of what travels by mail, for an environment that may use it again before it is sent."""
        plain = self._mail.plain
        try:
            copies: tuple[dict[str, Any], dict[str, Any]] = plain.loads(plain.dumps((objects, dict(info))))
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
