"""The serving loop: which twin runs, and the pure-Python one.

``make_loop`` hands the common case to the native ``Loop`` and everything else to ``PyLoop``, which is slower and equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ninelives.native import native_module
from ninelives.spec.arrays import DictNode, Leaf, Node, leaves
from ninelives.spec.autoreset import Autoreset
from ninelives.spec.data import DataSpec
from ninelives.spec.phase import Op, Phase
from ninelives.transport.bell import Bell
from ninelives.transport.control import TO_POLL, Control
from ninelives.transport.exchange import WORKER_ROUNDS, Answerer
from ninelives.worker import rng
from ninelives.worker.progress import Stamp
from ninelives.worker.slot import EnvSlot

LEAF_ARRAY, LEAF_INT = 1, 2

MAX_LEAVES, MAX_DIMS = 32, 8

FAST_TYPES = "?bBhHiIlLqQfd"
"""Type characters the native loop copies and checks itself; half and long double go through Python."""


Way = tuple[tuple[Any, ...], ...]
"""From an observation to one of its parts: a key into a dict, or a place and the length of a tuple; outermost first."""


class Loop(Protocol):
    """Answers requests until the parent says stop."""

    def serve(self) -> None:
        """Run."""
        ...


class PyLoop:
    """The loop in pure Python."""

    def __init__(
        self, control: Control, stamp: Stamp, groups: Mapping[int, Sequence[EnvSlot]], answerer: Answerer
    ) -> None:
        self._ops = control.op
        self._stamp, self._groups, self._answerer = stamp, groups, answerer

    def serve(self) -> None:
        """Answer requests until the parent says stop."""
        while (group := self._answerer.next_group()) is not None:
            attention = 0
            for slot in self._groups[group]:
                op = int(self._ops[slot.index])
                if op != Op.NONE:
                    attention |= slot.serve(op)
            self._stamp.enter(Phase.IDLE)
            self._answerer.publish(group, attention)


def make_loop(
    control: Control,
    worker: int,
    stamp: Stamp,
    groups: Mapping[int, Sequence[EnvSlot]],
    data: DataSpec,
    arrays: Mapping[str, npt.NDArray[Any]],
    check: str,
    autoreset: Autoreset,
    bell: Bell,
    parent_bell: Bell,
    heals: bool = False,
    seed_episodes: bool = False,
) -> Loop:
    """The native loop where it is built and allowed, else the Python one."""
    native = native_module("ninelives.worker._loop")
    rounds = WORKER_ROUNDS if control.to_worker[worker, TO_POLL] else 0
    if native is None:
        answerer = Answerer(control, worker, tuple(groups), bell, parent_bell, rounds)
        return PyLoop(control, stamp, groups, answerer)
    loop: Any = native.Loop(
        control=control,
        worker=worker,
        groups=[
            (g, [(slot.index, slot, slot.env.step, slot.env.reset, slot.innermost) for slot in slots])
            for g, slots in groups.items()
        ],
        observation=_fast_observation(data, arrays, check),
        actions=_fast_actions(data, arrays),
        check_nan=check != "shape",
        always_info=bool(data.infos) or any(leaf.dtype is None for leaf in leaves(data.observation)),
        heals=heals,
        seed_episodes=seed_episodes,
        pcg64=np.random.PCG64 if rng.fast_copy() is not None else None,
        autoreset=int(autoreset),
        bell_fd=bell.wait_fd,
        parent_fd=parent_bell.ring_fd,
        rounds=rounds,
    )
    for slots in groups.values():
        for slot in slots:
            slot.rebound, slot.write_fast = loop.bind, loop.write
    return loop  # type: ignore[no-any-return]


def _fast_observation(data: DataSpec, arrays: Mapping[str, npt.NDArray[Any]], check: str) -> list[Any]:
    """What the native loop needs to write rows itself; nothing where a part travels by mail or bounds are checked."""
    found = list(_ways(data.observation))
    told = [_fast_leaf(leaf, way, arrays[f"obs:{leaf.name}"]) for leaf, way in found if leaf.dtype]
    is_fast = len(told) == len(found) <= MAX_LEAVES and check != "bounds"
    return told if is_fast and all(told) else []


def _fast_leaf(leaf: Leaf, way: Way, array: npt.NDArray[Any]) -> Any:
    if not array.dtype.isnative or array.dtype.char not in FAST_TYPES or len(leaf.shape) > MAX_DIMS:
        return None
    kind = LEAF_INT if leaf.is_scalar_int and array.dtype == np.int64 else LEAF_ARRAY
    return array, array.dtype.num, kind, leaf.shape, way


def _ways(node: Node, above: Way = ()) -> Iterator[tuple[Leaf, Way]]:
    """Leaves in the order of ``leaves``, with the way from an observation to its part."""
    if isinstance(node, Leaf):
        yield node, above
    elif isinstance(node, DictNode):
        for key, child in node.children:
            yield from _ways(child, (*above, (key,)))
    else:
        for place, child in enumerate(node.children):
            yield from _ways(child, (*above, (place, len(node.children))))


def _fast_actions(data: DataSpec, arrays: Mapping[str, npt.NDArray[Any]]) -> Any:
    leaf = data.action
    if not isinstance(leaf, Leaf) or not leaf.is_scalar_int:
        return None
    array = arrays[f"action:{leaf.name}"]
    return array if array.dtype == np.int64 else None
