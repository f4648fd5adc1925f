"""Pickles that hold plain data only: what environments report to the parent about a step.

An environment may be code that was not reviewed, and an unrestricted pickle can run any function where it is loaded.
So infos hold values of builtin types, a few harmless ones of the standard library, NumPy's, and what the user has
allowed by name.
The worker refuses everything else before it is sent; the parent checks again and loads nothing that is not allowed.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import cloudpickle  # type: ignore[import-untyped, unused-ignore]
import numpy as np

ANY = "any"
"""The setting that allows every type: pickles of workers are trusted like the user's own."""

_ALLOWED: Mapping[str, str] = {
    "builtins": "bool bytearray bytes complex dict float frozenset int list object range set slice str tuple",
    "collections": "Counter OrderedDict defaultdict deque",
    "datetime": "date datetime time timedelta timezone",
    "decimal": "Decimal",
    "fractions": "Fraction",
    "pathlib": "Path PosixPath PurePath PurePosixPath",
    "pathlib._local": "Path PosixPath PurePath PurePosixPath",
    "uuid": "UUID SafeUUID",
    "numpy": "dtype ndarray",
    "numpy.core.multiarray": "_reconstruct scalar",
    "numpy._core.multiarray": "_reconstruct scalar",
    "numpy.core.numeric": "_frombuffer",
    "numpy._core.numeric": "_frombuffer",
    "gymnasium.spaces.graph": "GraphInstance",
}
"""By module. Calling any of these does no more than build a value."""

_SCALARS = {kind.__name__ for kind in {*np.sctypeDict.values()}}


class RefusedTypeError(ValueError):
    """A value is of a type that may not cross; ``name`` says which."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name} is not plain data: return NumPy or builtin types, or allow it with info_types=[{name!r}]"
        )
        self.name = name


class PlainPickle:
    """Writes and reads pickles of plain data. ``more`` are further types as ``module.name``, or ``"any"``."""

    def __init__(self, more: Sequence[str] | str = ()) -> None:
        self._takes_any = more == ANY
        self._more = frozenset(() if self._takes_any else more)

    def dumps(self, value: Any) -> bytes:
        """The pickle of a value.

        Raises:
            RefusedTypeError: some part of it is no plain data.
        """
        if self._takes_any:
            return bytes(cloudpickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))
        file = io.BytesIO()
        _Writer(file, self._more).dump(value)
        return file.getvalue()

    def loads(self, data: bytes) -> Any:
        """The value of a pickle; nothing but allowed types is looked up or called.

        Raises:
            RefusedTypeError: it names something else.
        """
        return pickle.loads(data) if self._takes_any else _Reader(io.BytesIO(data), self._more).load()


def _is_allowed(module: str, name: str, more: frozenset[str]) -> bool:
    allowed = name in _ALLOWED.get(module, "").split() or (module == "numpy" and name in _SCALARS)
    return allowed or f"{module}.{name}" in more


class _Writer(pickle.Pickler):
    def __init__(self, file: io.BytesIO, more: frozenset[str]) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._more = more

    def reducer_override(self, obj: Any) -> Any:
        """Called for everything but exact builtin values, before the value's own methods could run."""
        if type(obj) not in _NUMPY_TYPES:
            named = obj if hasattr(obj, "__qualname__") else type(obj)
            module, name = str(getattr(named, "__module__", None)), named.__qualname__
            if not _is_allowed(module, name, self._more):
                raise RefusedTypeError(f"{module}.{name}")
        return NotImplemented


class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, more: frozenset[str]) -> None:
        super().__init__(file)
        self._more = more

    def find_class(self, module: str, name: str) -> Any:
        """The only way from a pickle to code."""
        found = _FOUND.get((module, name))
        if found is None:
            if not _is_allowed(module, name, self._more):
                raise RefusedTypeError(f"{module}.{name}")
            found = super().find_class(module, name)
            if f"{module}.{name}" not in self._more:
                _FOUND[module, name] = found
        return found


_NUMPY_TYPES = frozenset({np.ndarray, *np.sctypeDict.values(), *(type(np.dtype(code)) for code in np.typecodes["All"])})
"""Types that infos are made of most: seen at a glance. What an array of objects holds is looked at in its turn."""

_FOUND: dict[tuple[str, str], Any] = {}
"""What was allowed before, whoever asks."""
