"""The serving loop: the choice between the native one and the one in pure Python, and the latter.

``make_loop`` uses the native ``Loop`` where it is built and allowed, else ``PyLoop``, which is slower and behaves the
same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ninelives.native import native_module
from ninelives.spec.arrays import DictNode, Leaf, Node, leaves
from ninelives.spec.data import DataSpec
from ninelives.spec.phase import Op, Phase
from ninelives.spec.text import TEXT_BYTES
from ninelives.transport.bell import Bell
from ninelives.transport.control import TO_POLL, Control
from ninelives.transport.exchange import WORKER_ROUNDS, Answerer
from ninelives.worker import rng
from ninelives.worker.progress import ProgressWords
from ninelives.worker.slot import EnvSlot, SlotSettings

LEAF_ARRAY, LEAF_INT, LEAF_TEXT = 1, 2, 3

MAX_LEAVES, MAX_DIMS = 32, 8

FAST_TYPES = "?bBhHiIlLqQfd"
"""Type characters that the native loop copies and checks itself; half and long double go through Python."""

PartPath = tuple[tuple[Any, ...], ...]
"""From an observation to one of its parts: (key,) into a dict, or (index, length) into a tuple; outermost first."""


class Loop(Protocol):
    """Answers requests until the parent says stop."""

    def serve(self) -> None:
        """Run."""
        ...


class PyLoop:
    """The loop in pure Python."""

    def __init__(
        self, control: Control, progress: ProgressWords, groups: Mapping[int, Sequence[EnvSlot]], answerer: Answerer
    ) -> None:
        self._ops = control.op
        self._progress, self._groups, self._answerer = progress, groups, answerer

    def serve(self) -> None:
        """Answer requests until the parent says stop."""
        while (group := self._answerer.next_group()) is not None:
            attention = 0
            for slot in self._groups[group]:
                op = int(self._ops[slot.index])
                if op != Op.NONE:
                    attention |= slot.serve(op)
            self._progress.enter(Phase.IDLE)
            self._answerer.publish(group, attention)


def make_loop(
    control: Control,
    worker: int,
    progress: ProgressWords,
    groups: Mapping[int, Sequence[EnvSlot]],
    data: DataSpec,
    arrays: Mapping[str, npt.NDArray[Any]],
    settings: SlotSettings,
    bells: tuple[Bell, Bell],
) -> Loop:
    """The native loop where it is built and allowed, else the Python one. ``bells``: the worker's and the parent's."""
    native = native_module("ninelives.worker._loop")
    bell, parent_bell = bells
    rounds = WORKER_ROUNDS if control.to_worker[worker, TO_POLL] else 0
    if native is None:
        answerer = Answerer(control, worker, tuple(groups), bell, parent_bell, rounds)
        return PyLoop(control, progress, groups, answerer)
    fast, found = _fast_observation(data, arrays, settings.check), list(leaves(data.observation))
    loop: Any = native.Loop(
        control=control,
        worker=worker,
        groups=[
            (g, [(slot.index, slot, slot.env.step, slot.env.reset, slot.innermost, slot.pack_info) for slot in slots])
            for g, slots in groups.items()
        ],
        observation=fast,
        actions=_fast_actions(data, arrays),
        check_nan=settings.check != "shape",
        always_info=bool(data.infos) or any(leaf.dtype is None and not (leaf.is_text and fast) for leaf in found),
        heals=settings.heals,
        resets_in_python=settings.seed_episodes or settings.fresh_env_every_episode,
        pcg64=np.random.PCG64 if rng.fast_copy() is not None else None,
        autoreset=int(settings.autoreset),
        bell_fd=bell.wait_fd,
        parent_fd=parent_bell.ring_fd,
        rounds=rounds,
    )
    for slots in groups.values():
        for slot in slots:
            slot.use_native(loop.bind, loop.write)
    return loop  # type: ignore[no-any-return]


def _fast_observation(data: DataSpec, arrays: Mapping[str, npt.NDArray[Any]], check: str) -> list[Any]:
    """What the native loop needs to write rows itself; empty where a part travels by mail or bounds are checked.

    Texts come last, as in the digest of a row.
    """
    paths = list(_paths(data.observation))
    parts = [_fast_leaf(leaf, path, arrays[f"obs:{leaf.name}"]) for leaf, path in paths if leaf.dtype]
    parts += [_text_leaf(path, arrays[f"text:{leaf.name}"]) for leaf, path in paths if leaf.is_text]
    is_fast = len(parts) == len(paths) <= MAX_LEAVES and check != "bounds"
    return parts if is_fast and all(parts) else []


def _fast_leaf(leaf: Leaf, path: PartPath, array: npt.NDArray[Any]) -> Any:
    if not array.dtype.isnative or array.dtype.char not in FAST_TYPES or len(leaf.shape) > MAX_DIMS:
        return None
    kind = LEAF_INT if leaf.is_scalar_int and array.dtype == np.int64 else LEAF_ARRAY
    return array, array.dtype.num, kind, leaf.shape, path


def _text_leaf(path: PartPath, array: npt.NDArray[Any]) -> Any:
    return array, array.dtype.num, LEAF_TEXT, (TEXT_BYTES,), path


def _paths(node: Node, above: PartPath = ()) -> Iterator[tuple[Leaf, PartPath]]:
    """Leaves in the order of ``leaves``, with the path from an observation to each."""
    if isinstance(node, Leaf):
        yield node, above
    elif isinstance(node, DictNode):
        for key, child in node.children:
            yield from _paths(child, (*above, (key,)))
    else:
        for index, child in enumerate(node.children):
            yield from _paths(child, (*above, (index, len(node.children))))


def _fast_actions(data: DataSpec, arrays: Mapping[str, npt.NDArray[Any]]) -> Any:
    leaf = data.action
    if not isinstance(leaf, Leaf) or not leaf.is_scalar_int:
        return None
    array = arrays[f"action:{leaf.name}"]
    return array if array.dtype == np.int64 else None
