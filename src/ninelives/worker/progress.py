"""A worker's progress: which phase, which slot, since when. Written by the loop that steps the environment.

The parent compares these words with its deadlines. No helper thread writes here: it would go on reporting progress
while the simulator hangs.
"""

from __future__ import annotations

import time

from ninelives.spec.phase import Phase, Stage
from ninelives.transport.control import FROM_GENERATION, FROM_MESSAGE, FROM_PHASE, FROM_SLOT, FROM_STAGE, Control


class ProgressWords:
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
        """A phase begins now; it stays until the next one begins, so that an error report finds it.

        Time before phase: a reader never sees a new phase with an old time.
        """
        self._line[FROM_SLOT] = slot + 1
        self._since[0] = time.monotonic_ns()
        self._line[FROM_PHASE] = int(phase)

    def reach(self, stage: Stage, message_bytes: int | None = None) -> None:
        """A stage of the start is reached. Its message was written before; without one, the last stays readable."""
        if message_bytes is not None:
            self._line[FROM_MESSAGE] = message_bytes
        self._line[FROM_STAGE] = int(stage)
