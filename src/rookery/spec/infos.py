"""Per-slot infos to one batch of infos, as Gymnasium's vector environments present them.

For every key: an array over the batch and a boolean mask ``_key``. Numbers become typed arrays, arrays are stacked,
dictionaries are merged recursively, everything else lands in object arrays. ``final_obs`` is always an object array.
Where Gymnasium would raise or cut a number off (environments that disagree about a key), the column is widened instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt


def merge_infos(rows: Iterable[tuple[int, Mapping[str, Any]]], size: int) -> dict[str, Any]:
    """Merge ``(row, info)`` pairs into one dictionary for a batch of ``size`` rows."""
    merged: dict[str, Any] = {}
    for row, info in rows:
        add_info(merged, info, row, size)
    return merged


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
    if isinstance(value, float | np.floating) and column.dtype.kind in "biu":
        column = column.astype(np.float64)
    try:
        column[row] = value
    except (ValueError, TypeError, OverflowError):
        rows = list(column)
        column = np.full(len(rows), fill_value=None, dtype=object)
        for i, old in enumerate(rows):
            column[i] = old
        column[row] = value
    return column


def _empty(key: str, value: Any, size: int) -> npt.NDArray[Any]:
    if key != "final_obs":
        if type(value) in (int, float, bool) or isinstance(value, np.number):
            return np.zeros(size, dtype=type(value))
        if isinstance(value, np.ndarray):
            return np.zeros((size, *value.shape), dtype=value.dtype)
    return np.full(size, fill_value=None, dtype=object)
