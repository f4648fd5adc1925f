"""One row of a batch, and the first value in which it differs from another one.

Rows are compared bit by bit: observation, reward, flags, infos, and return and length of an episode that ends. Infos
that hold elapsed time are not compared.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ninelives.spec.arrays import Node, assemble, split

if TYPE_CHECKING:
    from ninelives.pool.batch import Batch

CLOCKS = ("episode.t",)
"""Infos that hold elapsed time: Gymnasium's ``RecordEpisodeStatistics`` writes this one."""

NUMBERS = (np.ndarray, np.generic, bool, int, float, complex)


@dataclass(frozen=True)
class Mismatch:
    """A value that differs: its name, its value in the reference row, and its value in the other row."""

    what: str
    expected: Any
    got: Any


@dataclass(frozen=True)
class Row:
    """Row number ``index`` of a batch whose observations have the structure ``node``."""

    batch: Batch
    index: int
    node: Node

    @property
    def slot(self) -> int:
        """The slot that produced it."""
        return int(self.batch.slots[self.index])

    @property
    def is_valid(self) -> bool:
        """Whether it is a true transition."""
        return bool(self.batch.valid[self.index])

    @property
    def is_last(self) -> bool:
        """Whether the environment ended its episode here."""
        return self.is_valid and bool(self.batch.terminated[self.index] or self.batch.truncated[self.index])

    def parts(self) -> dict[str, Any]:
        """Everything that a learner can see of it."""
        batch, i = self.batch, self.index
        ended = np.flatnonzero(batch.episodes.slots == batch.slots[i])
        parts = {"reward": batch.reward[i], "terminated": batch.terminated[i], "truncated": batch.truncated[i]}
        columns = {leaf.name: column for leaf, column in split(self.node, batch.obs)}
        parts |= {"obs": assemble(self.node, lambda leaf: columns[leaf.name][i]), "info": _info(batch.infos, i)}
        if len(ended):
            parts["episode"] = {"return": batch.episodes.returns[ended[0]], "length": batch.episodes.lengths[ended[0]]}
        return parts


def rows_of(batch: Batch, node: Node) -> list[Row]:
    """Every row of a batch."""
    return [Row(batch, index, node) for index in range(len(batch))]


def first_mismatch(expected: Row, got: Row, ignored: tuple[str, ...] = ()) -> Mismatch | None:
    """Compare two rows. ``ignored`` are names of infos, with dots for nested ones."""
    return _mismatch(expected.parts(), got.parts(), "", (*CLOCKS, *ignored))


def _info(infos: Mapping[str, Any], i: int) -> dict[str, Any]:
    """The infos that this row has, according to their masks."""
    own = {key: column for key, column in infos.items() if f"_{key}" in infos and infos[f"_{key}"][i]}
    return {key: _info(column, i) if isinstance(column, Mapping) else column[i] for key, column in own.items()}


def _mismatch(expected: Any, got: Any, name: str, ignored: tuple[str, ...]) -> Mismatch | None:
    if name.startswith("info.") and any(f".{name}".endswith(f".{clock}") for clock in ignored):
        return None
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        return _mismatch_mapping(expected, got, name, ignored)
    if isinstance(expected, tuple | list) and isinstance(got, tuple | list) and len(expected) == len(got):
        pairs = enumerate(zip(expected, got, strict=True))
        return next((found for i, (a, b) in pairs if (found := _mismatch(a, b, f"{name}[{i}]", ignored))), None)
    if isinstance(expected, NUMBERS) and isinstance(got, NUMBERS):
        return _mismatch_numbers(np.asarray(expected), np.asarray(got), name)
    return None if _same_thing(expected, got) else Mismatch(name, expected, got)


def _mismatch_mapping(
    expected: Mapping[str, Any], got: Mapping[str, Any], name: str, ignored: tuple[str, ...]
) -> Mismatch | None:
    absent = "(missing)"
    for key in [*expected, *(key for key in got if key not in expected)]:
        path = f"{name}.{key}" if name else str(key)
        found = _mismatch(expected.get(key, absent), got.get(key, absent), path, ignored)
        if found is not None:
            return found
    return None


def _mismatch_numbers(expected: np.ndarray[Any, Any], got: np.ndarray[Any, Any], name: str) -> Mismatch | None:
    if expected.dtype == object or got.dtype == object or expected.shape != got.shape:
        return None if _same_thing(expected, got) else Mismatch(name, expected, got)
    if expected.dtype == got.dtype and expected.tobytes() == got.tobytes():
        return None
    # A column of infos may have a wider type in one batch than in the other.
    common = np.promote_types(expected.dtype, got.dtype)
    differ = _other_bits(expected.astype(common), got.astype(common))
    if not differ.any():
        return None
    if not expected.shape:
        return Mismatch(name, expected[()], got[()])
    first = tuple(int(axis[0]) for axis in np.nonzero(differ))
    return Mismatch(f"{name}[{', '.join(map(str, first))}]", expected[first], got[first])


def _other_bits(expected: np.ndarray[Any, Any], got: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Where the bits differ: NaN equals itself, and zero is not minus zero."""
    by_byte = (*expected.shape, expected.itemsize)
    one, other = (np.frombuffer(array.tobytes(), np.uint8).reshape(by_byte) for array in (expected, got))
    differ: np.ndarray[Any, Any] = (one != other).any(axis=-1)
    return differ


def _same_thing(expected: Any, got: Any) -> bool:
    """Whether they are equal or have the same pickle: many objects in infos do not define equality."""
    try:
        if bool(expected == got):
            return True
    except Exception:
        pass  # the comparison itself failed
    return pickle.dumps(expected) == pickle.dumps(got)
