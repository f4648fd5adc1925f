"""Which frames of a run are drawn, for a core that leaves out N after each one it draws. Pure.

mGBA counts down: at 0 a frame is drawn, and at its end the counter starts again from the option ``mgba_frameskip``. The
counter is no part of a state and can only be moved by running frames. With the option at N - 1 and the counter there
too, a step of N frames draws its last one and ends as it began:

    frames of a step of 4    undrawn  undrawn  undrawn  drawn
    counter before each         3        2        1       0       then 3 again
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FrameRun:
    """A part of a run: set the option, then run some frames.

    Attributes:
        skip: value of the option.
        frames: how many frames.
    """

    skip: int
    frames: int


def frame_runs(counter: int, frames: int, frame_skip: int) -> tuple[FrameRun, ...]:
    """How to run ``frames`` frames so that the last is drawn and the counter ends at ``frame_skip - 1``.

    ``counter`` is less than ``frames``: a run that ends before the counter does cannot draw its last frame.
    """
    to_first_drawn, home = counter + 1, frame_skip - 1
    if to_first_drawn == frames:
        return (FrameRun(home, frames),)
    between = frames - to_first_drawn - 1
    return (FrameRun(between, to_first_drawn), FrameRun(home, frames - to_first_drawn))


def discarded_frames(counter: int, frames: int) -> int:
    """Frames to be run and thrown away first, so that the counter ends with the run; 0 if it does not end later."""
    return max(0, counter + 1 - frames)
