"""The size of each log at each checkpoint, so that a resumed run continues its logs and repeats no row.

::

    progress.csv  ──────────────────┤ checkpoint at step 20,000 ├─────── rows of a trainer that was killed
    after --resume ─────────────────┤ truncated to here         ├── the same steps, done again, written once

Only for files that grow at their end. Must never make a file longer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from ninelives.train.saving.run_dir import replace_text

KEEP = 50
"""Checkpoints whose offsets are kept: more than a run keeps checkpoints."""


class LogOffsets:
    """The sizes of a run's logs at its checkpoints. Paths are relative to the run's directory."""

    def __init__(self, run_dir: Path) -> None:
        self._dir, self._path = run_dir, run_dir / "log_offsets.json"

    def note(self, step: int, logs: Iterable[Path]) -> None:
        """Save the present sizes for the checkpoint of this step."""
        sizes = {str(log.relative_to(self._dir)): log.stat().st_size for log in logs if log.exists()}
        offsets = {**self._read(), step: sizes}
        newest = sorted(offsets)[-KEEP:]
        replace_text(self._path, json.dumps({str(key): offsets[key] for key in newest}))

    def cut(self, step: int, logs: Iterable[Path]) -> None:
        """Truncate the logs to their sizes at this step's checkpoint; later offsets are dropped.

        A trainer may have been killed after it wrote the checkpoint and before it saved the offsets: then nothing was
        logged after the checkpoint, and nothing is truncated.
        """
        offsets = self._read()
        if step in offsets:
            for log in logs:
                self._shorten(log, offsets[step].get(str(log.relative_to(self._dir)), 0))
        kept = {str(key): sizes for key, sizes in offsets.items() if key <= step}
        replace_text(self._path, json.dumps(kept))

    def _shorten(self, log: Path, size: int) -> None:
        if log.exists() and log.stat().st_size > size:
            os.truncate(log, size)

    def _read(self) -> dict[int, dict[str, int]]:
        try:
            return {int(key): dict(sizes) for key, sizes in json.loads(self._path.read_text()).items()}
        except (OSError, ValueError, AttributeError):
            return {}
