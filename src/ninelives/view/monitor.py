"""One CSV file per slot with every finished episode, byte for byte as SB3's ``Monitor`` writes it.

SB3's ``load_results`` and everything built on it (``plot_results``, the zoo's plots) can read the directory.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

SUFFIX = ".monitor.csv"
COLUMNS = ("r", "l", "t")


class MonitorFiles:
    """Appends to ``0.monitor.csv``, ``1.monitor.csv`` and so on; existing files are continued.

    Args:
        directory: created if it is missing.
        env_id: environment id for the header.
        num_envs: number of slots.
        started_s: wall-clock start time for the header of a new file.
    """

    def __init__(self, directory: Path, env_id: str, num_envs: int, started_s: float) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.paths = [directory / f"{slot}{SUFFIX}" for slot in range(num_envs)]
        self._before_s = max((last_time(path) for path in self.paths), default=0.0)
        header = f"#{json.dumps({'t_start': started_s, 'env_id': env_id})}\n"
        self._files: list[TextIO] = [_open(path, header) for path in self.paths]
        self._rows = [csv.writer(file) for file in self._files]

    def episode(self, slot: int, total: float, length: int, seconds: float) -> None:
        """Write one finished episode; ``seconds`` since this start of the trainer (earlier starts are added)."""
        self._rows[slot].writerow((round(total, 6), length, round(self._before_s + seconds, 6)))

    def flush(self) -> None:
        """Write buffered rows to disk."""
        for file in self._files:
            file.flush()

    def close(self) -> None:
        """Flush and close the files."""
        for file in self._files:
            file.close()


def read_episodes(directory: Path) -> list[tuple[float, int, float]]:
    """Return, length and time of every episode in a directory, in order of time; broken lines are skipped."""
    rows = [row for path in sorted(directory.glob(f"*{SUFFIX}")) for row in _rows_of(_lines_of(path))]
    return sorted(rows, key=lambda row: row[2])


def _lines_of(path: Path) -> list[str]:
    return path.read_text(errors="replace").splitlines()


def last_time(path: Path) -> float:
    """The time of the last episode in a file; 0 if there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 4096))
            rows = _rows_of(file.read().decode(errors="replace").splitlines())
    except OSError:
        return 0.0
    return rows[-1][2] if rows else 0.0


def _open(path: Path, header: str) -> TextIO:
    is_new = not path.exists() or not path.stat().st_size
    file = path.open("a", newline="\n")  # csv writes its own line endings, as SB3 does
    if is_new:
        file.write(header)
        csv.writer(file).writerow(COLUMNS)
        file.flush()
    return file


def _rows_of(lines: Sequence[str]) -> list[tuple[float, int, float]]:
    return [row for line in lines if (row := _row(line.split(","))) is not None]


def _row(cells: Sequence[Any]) -> tuple[float, int, float] | None:
    try:
        total, length, seconds = cells[:3]
        return float(total), int(length), float(seconds)
    except ValueError:
        return None
