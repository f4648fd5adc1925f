"""Per-slot infos to one batch of infos, as Gymnasium's vector environments present them.

For every key: an array over the batch and a boolean mask ``_key``. Numbers become typed arrays, arrays are stacked,
dictionaries are merged recursively, everything else lands in object arrays. ``final_obs`` is always an object array.
Where Gymnasium would raise or cut a number off (environments that disagree about a key), the column is widened instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt


def add_info(merged: dict[str, Any], info: Mapping[str, Any], row: int, size: int) -> None:
    """Put one row's info into ``merged``, in place."""
    for key, value in info.items():
        if isinstance(value, dict) and key != "final_obs":
            nested = merged.get(key, {})
            if not isinstance(nested, dict):
                nested = {}
            add_info(nested, value, row, size)
            merged[key] = nested
        else:
            column = merged[key] if key in merged else _empty(key, value, size)
            merged[key] = _with(column, row, value)
        mask = merged.setdefault(f"_{key}", np.zeros(size, dtype=np.bool_))
        mask[row] = True


def _with(column: Any, row: int, value: Any) -> Any:
    """The column with one more value; it becomes wider if the value does not fit, so that nothing is lost or raised."""
    if isinstance(column, dict):
        return column  # one environment gives a dictionary where another gives a value: the dictionaries win
    if column.dtype != object:
        column = _wide_enough(column, np.asarray(value))
    column[row] = value
    return column


def _wide_enough(column: npt.NDArray[Any], value: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The column in a type that holds its rows and the value: numbers are promoted, anything else becomes objects."""
    same_shape = value.shape == column.shape[1:]
    if same_shape and np.can_cast(value.dtype, column.dtype, "safe"):
        return column
    if same_shape and value.dtype.kind in "biuf" and column.dtype.kind in "biuf":
        return column.astype(np.promote_types(column.dtype, value.dtype))
    objects = np.full(len(column), fill_value=None, dtype=object)
    for row, old in enumerate(column):
        objects[row] = old
    return objects


def _empty(key: str, value: Any, size: int) -> npt.NDArray[Any]:
    if key != "final_obs":
        if type(value) in (int, float, bool) or isinstance(value, np.number):
            return np.zeros(size, dtype=type(value))
        if isinstance(value, np.ndarray):
            return np.zeros((size, *value.shape), dtype=value.dtype)
    return np.full(size, fill_value=None, dtype=object)
