"""Reads a worker's progress words, and notices what no worker of ours would write.

A simulator that writes wildly can reach them. Impossible words are a reason to end the worker, never an exception here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninelives.spec.phase import Phase, Stage
from ninelives.supervise.machine import NS
from ninelives.transport.control import FROM_MESSAGE, FROM_PHASE, FROM_SLOT, FROM_STAGE

MESSAGE_BYTES = 1 << 28
"""No hello and no error report is longer: the bounds of the largest spaces take some megabytes."""


@dataclass(frozen=True)
class Progress:
    """What a worker does, as far as its words are possible; ``complaint`` names those that are not."""

    phase: Phase
    slot: int | None
    stage: Stage
    complaint: str = ""


def read_progress(
    line: npt.NDArray[np.uint32], rows: int, since_ns: int | None = None, now_ns: int | None = None
) -> Progress:
    """The words of one worker in a segment of so many rows; the time is checked where it is given.

    An impossible phase in a possible slot reads as a step: that is when environments run.
    """
    phase, slot, stage = int(line[FROM_PHASE]), int(line[FROM_SLOT]) - 1, int(line[FROM_STAGE])
    nbytes, is_slot = int(line[FROM_MESSAGE]), 0 <= slot < rows
    wrong = []
    if phase >= len(Phase):
        wrong.append(f"phase {phase} (0 to {len(Phase) - 1})")
    if slot >= rows:
        wrong.append(f"slot {slot} (0 to {rows - 1})")
    if stage >= len(Stage):
        wrong.append(f"stage {stage} (0 to {len(Stage) - 1})")
    if nbytes > MESSAGE_BYTES:
        wrong.append(f"a message of {nbytes} bytes (at most {MESSAGE_BYTES})")
    if since_ns is not None and now_ns is not None and since_ns > now_ns + NS:
        wrong.append("a phase that begins in the future")
    unknown = Phase.STEP if is_slot else Phase.IDLE
    return Progress(
        phase=Phase(phase) if phase < len(Phase) else unknown,
        slot=slot if is_slot else None,
        stage=Stage(stage) if stage < len(Stage) else Stage.NONE,
        complaint=", ".join(wrong),
    )
