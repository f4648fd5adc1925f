"""Gymnasium spaces as trees of named arrays, and values in and out of them.

A space becomes a tree whose leaves are either arrays in the shared slab (Box, Discrete, MultiDiscrete, MultiBinary, at
any depth of Dict and Tuple) or objects that travel by mailbox (Graph, Sequence, OneOf, anything custom). Strings travel
in the slab where they are short, else by mailbox. The same tree serves observations and actions, in the worker (one
row) and in the parent (a batch of rows).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, singledispatch
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from ninelives.spec.layout import LayoutField
from ninelives.spec.text import TEXT_BYTES

LONG_DOUBLE_BYTES = 10 if np.finfo(np.longdouble).nmant == 63 else np.longdouble().itemsize
"""How many bytes of a long double carry its value: the ten of x86's extended format, or all."""


class BadValueError(ValueError):
    """A value does not fit its declared space; the worker turns this into a fault of kind ``bad_data``."""


@dataclass(frozen=True, eq=False)
class Leaf:
    """One array of the slab, or one object of the mailbox (``dtype`` is None)."""

    path: tuple[str | int, ...]
    shape: tuple[int, ...]
    dtype: str | None
    low: npt.NDArray[Any] | None = None
    high: npt.NDArray[Any] | None = None
    is_text: bool = False
    """An object that is a string: short ones have a place in the slab as well."""

    @cached_property
    def name(self) -> str:
        """The path as one word, for messages and field names; a slash within a key is escaped as in JSON pointers."""
        return "/".join(str(part).replace("~", "~0").replace("/", "~1") for part in self.path) or "."

    @cached_property
    def is_scalar_int(self) -> bool:
        """A Discrete: travels as int64, reaches the environment as a Python int."""
        return self.shape == () and self.dtype is not None and np.dtype(self.dtype).kind in "iu"


@dataclass(frozen=True)
class DictNode:
    """A Dict space, keys in the space's own order."""

    children: tuple[tuple[str, Node], ...]


@dataclass(frozen=True)
class TupleNode:
    """A Tuple space."""

    children: tuple[Node, ...]


Node = Leaf | DictNode | TupleNode


@singledispatch
def tree_of(space: spaces.Space[Any], path: tuple[str | int, ...] = ()) -> Node:
    """The tree of a space; unknown spaces become one mailbox leaf."""
    return Leaf(path, (), None, is_text=space.dtype is not None and space.dtype.kind == "U")


@tree_of.register
def _(space: spaces.Box, path: tuple[str | int, ...] = ()) -> Node:
    return Leaf(path, space.shape, space.dtype.str, space.low, space.high)


@tree_of.register
def _(space: spaces.Discrete, path: tuple[str | int, ...] = ()) -> Node:
    low, high = np.asarray(space.start), np.asarray(space.start + space.n - 1)
    return Leaf(path, (), np.dtype(space.dtype).str, low, high)


@tree_of.register
def _(space: spaces.MultiDiscrete, path: tuple[str | int, ...] = ()) -> Node:
    return Leaf(path, space.shape, space.dtype.str, space.start, space.start + space.nvec - 1)


@tree_of.register
def _(space: spaces.MultiBinary, path: tuple[str | int, ...] = ()) -> Node:
    return Leaf(path, space.shape, space.dtype.str, np.asarray(0), np.asarray(1))


@tree_of.register
def _(space: spaces.Dict, path: tuple[str | int, ...] = ()) -> Node:
    return DictNode(tuple((key, tree_of(sub, (*path, key))) for key, sub in space.spaces.items()))


@tree_of.register
def _(space: spaces.Tuple, path: tuple[str | int, ...] = ()) -> Node:  # type: ignore[type-arg]
    return TupleNode(tuple(tree_of(sub, (*path, i)) for i, sub in enumerate(space.spaces)))


def leaves(node: Node) -> Iterator[Leaf]:
    """All leaves, depth first, in the order of the space."""
    if isinstance(node, Leaf):
        yield node
    elif isinstance(node, DictNode):
        for _, child in node.children:
            yield from leaves(child)
    else:
        for child in node.children:
            yield from leaves(child)


def fields(node: Node, prefix: str, slots: int) -> list[LayoutField]:
    """The slab fields of a tree for ``slots`` rows; mailbox leaves have none."""
    return [
        LayoutField(f"{prefix}:{leaf.name}", (slots, *leaf.shape), leaf.dtype) for leaf in leaves(node) if leaf.dtype
    ]


def text_fields(node: Node, slots: int) -> list[LayoutField]:
    """The slab fields of the texts of a tree."""
    return [LayoutField(f"text:{leaf.name}", (slots, TEXT_BYTES), "u1") for leaf in leaves(node) if leaf.is_text]


def assemble(node: Node, value_of: Callable[[Leaf], Any]) -> Any:
    """Rebuild the space's own structure from one value per leaf."""
    if isinstance(node, Leaf):
        return value_of(node)
    if isinstance(node, DictNode):
        return {key: assemble(child, value_of) for key, child in node.children}
    return tuple(assemble(child, value_of) for child in node.children)


def split(node: Node, value: Any) -> Iterator[tuple[Leaf, Any]]:
    """Pairs of leaf and value; complains about missing keys and wrong lengths by name."""
    if isinstance(node, Leaf):
        yield node, value
    elif isinstance(node, DictNode):
        if not isinstance(value, Mapping):
            keys = [key for key, _ in node.children]
            raise BadValueError(f"expected a dict with keys {keys}, got {type(value).__name__}")
        for key, child in node.children:
            if key not in value:
                raise BadValueError(f"key {key!r} is missing; got keys {list(value)}")
            yield from split(child, value[key])
    else:
        if not isinstance(value, tuple | list) or len(value) != len(node.children):
            raise BadValueError(f"expected a tuple of {len(node.children)} values, got {type(value).__name__}")
        for child, part in zip(node.children, value, strict=True):
            yield from split(child, part)


def value_bytes(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """The bytes of an array that carry its values: equal values of one type have equal bytes.

    A long double of x86 has six bytes of padding, which hold whatever was in memory before.
    """
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    if array.dtype.char not in "gG" or np.longdouble().itemsize == LONG_DOUBLE_BYTES:
        return raw
    numbers = raw.reshape(-1, np.longdouble().itemsize)
    used = numbers[:, :LONG_DOUBLE_BYTES] if array.dtype.isnative else numbers[:, -LONG_DOUBLE_BYTES:]
    return np.ascontiguousarray(used).reshape(-1)


def checked_leaf(leaf: Leaf, value: Any, check: str) -> npt.NDArray[Any]:
    """The value as an array that fits its row.

    Shapes must be equal, kinds of dtype must agree (a float64 observation of a float32 space is fine, a float for an
    integer space is not), and with ``check="nan"`` floats must not be NaN, with ``check="bounds"`` also in bounds.
    """
    array = np.asarray(value)
    if array.shape != leaf.shape:
        raise BadValueError(f"{leaf.name}: shape {array.shape} where the space declares {leaf.shape}")
    declared = np.dtype(leaf.dtype)
    if array.dtype != declared and not np.can_cast(array.dtype, declared, "same_kind"):
        raise BadValueError(f"{leaf.name}: dtype {array.dtype} where the space declares {declared}")
    if check != "shape" and array.dtype.kind == "f" and np.isnan(array).any():
        raise BadValueError(f"{leaf.name}: holds NaN {_first(np.isnan(array))}where the space declares {declared}")
    if check == "bounds" and leaf.low is not None and leaf.high is not None:
        outside = (array < leaf.low) | (array > leaf.high)
        if outside.any():
            low, high = (np.broadcast_to(bound, leaf.shape)[outside].flat[0] for bound in (leaf.low, leaf.high))
            raise BadValueError(
                f"{leaf.name}: value {array[outside].flat[0]} {_first(outside)}lies outside the declared bounds "
                f"[{low}, {high}]"
            )
    return array


def _first(mask: npt.NDArray[np.bool_]) -> str:
    """Where the first True is, as words to be followed by others."""
    return f"at index {[int(n) for n in np.argwhere(mask)[0]]} " if mask.ndim else ""
