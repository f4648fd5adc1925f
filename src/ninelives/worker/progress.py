"""Progress, written by the very loop that steps the environment: which phase, which slot, since when.

The parent compares these words with its deadlines. No helper thread writes here: a thread would go on beating while the
simulator hangs.
"""

from __future__ import annotations

import time

from ninelives.spec.phase import Phase, Stage
from ninelives.transport.control import FROM_GENERATION, FROM_MESSAGE, FROM_PHASE, FROM_SLOT, FROM_STAGE, Control


class Stamp:
    """One worker's line of progress words."""

    def __init__(self, control: Control, worker: int, generation: int) -> None:
        self._line = control.from_worker[worker]
        self._since = control.since_ns[worker]
        self._line[FROM_GENERATION] = generation

    @property
    def phase(self) -> Phase:
        """The phase last entered."""
        return Phase(int(self._line[FROM_PHASE]))

    def enter(self, phase: Phase, slot: int = -1) -> None:
        """Say what begins now; it stands until the next phase begins, so that an exception finds it there.

        Time before phase: a reader never sees a new phase with an old time.
        """
        self._line[FROM_SLOT] = slot + 1
        self._since[0] = time.monotonic_ns()
        self._line[FROM_PHASE] = int(phase)

    def reach(self, stage: Stage, letter_bytes: int | None = None) -> None:
        """Say how far the start has come; a letter was written before, and an older one stays readable."""
        if letter_bytes is not None:
            self._line[FROM_MESSAGE] = letter_bytes
        self._line[FROM_STAGE] = int(stage)
