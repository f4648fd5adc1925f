"""One CSV row per update: steps, speed, returns, losses. ``ninelives runs`` and any spreadsheet can read it."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO


class TableError(ValueError):
    """The file is not a table: it is binary, or has cells without end."""


class ProgressTable:
    """Appends rows to a file; the first row decides the columns, an existing file is continued."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: TextIO | None = None
        self._columns = columns_of(path)

    def row(self, values: Mapping[str, float | None]) -> None:
        """Write one row; names that are not columns are ignored, columns without a value stay empty."""
        if self._file is None:
            self._file = self._open(list(values))
        csv.writer(self._file, lineterminator="\n").writerow([_cell(values.get(name)) for name in self._columns])

    def flush(self) -> None:
        """Write buffered rows to disk."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Flush and close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self, names: list[str]) -> TextIO:
        file = self.path.open("a", newline="")
        if not self._columns:
            self._columns = names
            csv.writer(file, lineterminator="\n").writerow(names)
        return file


def columns_of(path: Path) -> list[str]:
    """The columns of a table; empty if there is no table yet.

    Raises:
        TableError: the file is something else.
    """
    try:
        with path.open(newline="") as file:
            return next(csv.reader(file), [])
    except OSError:
        return []
    except (csv.Error, UnicodeDecodeError) as error:
        raise _no_table(path, error) from error


def read_table(path: Path) -> list[dict[str, float]]:
    """Every row of a table; cells that are not finite numbers are left out.

    Raises:
        TableError: the file is something else.
    """
    try:
        with path.open(newline="") as file:
            return [_numbers(row) for row in csv.DictReader(file)]
    except OSError:
        return []
    except (csv.Error, UnicodeDecodeError) as error:
        raise _no_table(path, error) from error


def _no_table(path: Path, error: Exception) -> TableError:
    return TableError(f"{path} is not the table of a run ({error}); move it elsewhere: no checkpoint depends on it")


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.8g}" if isinstance(value, float) else str(value)


def _numbers(row: Mapping[str | None, object]) -> dict[str, float]:
    numbers = {}
    for name, cell in row.items():
        try:
            number = float(str(cell))
        except ValueError:
            continue
        if math.isfinite(number):
            numbers[str(name)] = number
    return numbers
