"""Actions from the learner into the slab, checked once per batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ninelives.errors import ActionError
from ninelives.spec.arrays import BadValueError, Leaf, Node, assemble, leaves, split
from ninelives.transport.control import Control
from ninelives.transport.mailbox import TO_WORKER, Mailbox

ALL_ROWS = slice(None)


class ActionWriter:
    """Writes batches of actions; remembers nothing that is not in the slab."""

    def __init__(
        self,
        node: Node,
        space: Any,
        arrays: Mapping[str, npt.NDArray[Any]],
        control: Control,
        mail: Mailbox,
        slots: int,
    ) -> None:
        self._node, self._space, self._control, self._mail = node, space, control, mail
        self._rows = {leaf.name: arrays[f"action:{leaf.name}"] for leaf in leaves(node) if leaf.dtype}
        self._by_mail = any(leaf.dtype is None for leaf in leaves(node))
        self._all = np.arange(slots)
        self.plain = self._rows[node.name] if isinstance(node, Leaf) and node.dtype else None

    def write_all(self, actions: Any) -> None:
        """One action per slot, in order."""
        if self.plain is not None:
            self._write_plain(self.plain, actions, self.plain.shape, ALL_ROWS)
        else:
            self.write(actions, self._all)

    def write(self, actions: Any, slots: npt.NDArray[np.int64]) -> None:
        """One action per entry of ``slots``."""
        if self.plain is not None:
            self._write_plain(self.plain, actions, (len(slots), *self.plain.shape[1:]), slots)
        elif self._by_mail:
            self._post(actions, slots)
        else:
            for leaf, value in self._split(actions):
                wanted = (len(slots), *leaf.shape)
                self._write_plain(self._rows[leaf.name], value, wanted, slots, f" for {leaf.name!r}")

    def _write_plain(
        self, rows: npt.NDArray[Any], actions: Any, wanted: tuple[int, ...], slots: Any, where: str = ""
    ) -> None:
        array = actions if isinstance(actions, np.ndarray) else np.asarray(actions)
        if array.shape != wanted:
            raise ActionError(
                f"actions{where} have shape {array.shape}, expected {wanted}: one action of {self._space} per slot"
            )
        if array.dtype != rows.dtype and not np.can_cast(array.dtype, rows.dtype, "same_kind"):
            # Floats for whole numbers would be cut off silently.
            raise ActionError(f"actions{where} have dtype {array.dtype}, which does not fit {self._space}")
        rows[slots] = array

    def _split(self, actions: Any) -> list[tuple[Leaf, Any]]:
        try:
            return list(split(self._node, actions))
        except BadValueError as error:
            raise ActionError(f"actions do not fit {self._space}: {error}") from error

    def last(self, slot: int) -> Any:
        """The action last given to a slot, for reports."""
        if self._by_mail:
            return None
        return assemble(self._node, lambda leaf: self._rows[leaf.name][slot].tolist())

    def _post(self, actions: Any, slots: npt.NDArray[np.int64]) -> None:
        """Actions that are no arrays (Text, Graph, Sequence): a sequence with one action per slot, by mailbox."""
        if len(actions) != len(slots):
            raise ActionError(f"{len(actions)} actions for {len(slots)} slots; give one action per slot")
        for slot, action in zip(slots.tolist(), actions, strict=True):
            self._control.ask_bytes[slot] = self._mail.put(slot, TO_WORKER, action)
