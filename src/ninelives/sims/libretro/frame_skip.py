"""Which frames are drawn, for a core that skips drawing N frames after each one it draws. Pure.

mGBA counts down: at 0 a frame is drawn, and afterwards the counter restarts from the option ``mgba_frameskip``. The
counter is not part of a state and only changes by running frames. With the option and the counter at N - 1, a step of N
frames draws its last one and ends with the same counter:

    frames of a step of 4    undrawn  undrawn  undrawn  drawn
    counter before each         3        2        1       0       then 3 again
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FrameRun:
    """Set the option to ``skip``, then run ``frames`` frames."""

    skip: int
    frames: int


def frame_runs(counter: int, frames: int, frame_skip: int) -> tuple[FrameRun, ...]:
    """How to run ``frames`` frames so that the last one is drawn and the counter ends at ``frame_skip - 1``.

    ``counter`` must be less than ``frames``: otherwise the last frame cannot be drawn.
    """
    to_first_drawn, home = counter + 1, frame_skip - 1
    if to_first_drawn == frames:
        return (FrameRun(home, frames),)
    between = frames - to_first_drawn - 1
    return (FrameRun(between, to_first_drawn), FrameRun(home, frames - to_first_drawn))


def discarded_frames(counter: int, frames: int) -> int:
    """Number of frames to run and undo first, so that the counter reaches 0 within the run."""
    return max(0, counter + 1 - frames)
