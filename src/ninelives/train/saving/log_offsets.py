"""How long each log was when a checkpoint was taken, so that a resumed run continues its logs and repeats no row.

::

    progress.csv  ──────────────────┤ checkpoint at step 20,000 ├─────── rows of a trainer that was killed
    after --resume ─────────────────┤ cut back to here          ├── the same steps, made again, written once

Only for files that grow at their end. Must never make a file longer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from ninelives.train.saving.run_dir import replace_text

KEEP = 50
"""Marks that are kept: more than anybody keeps checkpoints."""


class Marks:
    """The lengths of a run's logs at its checkpoints. Names are relative to the run's directory."""

    def __init__(self, run_dir: Path) -> None:
        self._dir, self._path = run_dir, run_dir / "marks.json"

    def note(self, step: int, logs: Iterable[Path]) -> None:
        """Remember the present lengths for the checkpoint of this step."""
        sizes = {str(log.relative_to(self._dir)): log.stat().st_size for log in logs if log.exists()}
        marks = {**self._read(), step: sizes}
        newest = sorted(marks)[-KEEP:]
        replace_text(self._path, json.dumps({str(key): marks[key] for key in newest}))

    def cut(self, step: int, logs: Iterable[Path]) -> None:
        """Cut the logs back to where they were at this step's checkpoint; later marks are forgotten.

        A killed trainer may have written the checkpoint and not its mark: then nothing came after it, and nothing is
        cut.
        """
        marks = self._read()
        if step in marks:
            for log in logs:
                self._shorten(log, marks[step].get(str(log.relative_to(self._dir)), 0))
        kept = {str(key): sizes for key, sizes in marks.items() if key <= step}
        replace_text(self._path, json.dumps(kept))

    def _shorten(self, log: Path, size: int) -> None:
        if log.exists() and log.stat().st_size > size:
            os.truncate(log, size)

    def _read(self) -> dict[int, dict[str, int]]:
        try:
            return {int(key): dict(sizes) for key, sizes in json.loads(self._path.read_text()).items()}
        except (OSError, ValueError, AttributeError):
            return {}
