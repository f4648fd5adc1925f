"""A step draws only its last frame, and nobody can tell: memory and picture are those of a run that draws all."""

from __future__ import annotations

import os
import random

import pytest
from gazing import PADS, sight
from installed import core_named

from ninelives.errors import EmulatorError
from ninelives.sims.libretro.frame_skip import discarded_frames, frame_runs

ROUNDS = 400 if os.environ.get("NINELIVES_FULL") == "1" else 40


class Counter:
    """mGBA's rule for which frames are drawn."""

    def __init__(self, counter):
        self.counter = counter

    def run(self, run):
        """Whether each frame of the run is drawn."""
        drawn = []
        for _ in range(run.frames):
            drawn.append(self.counter <= 0)
            self.counter -= 1
            if self.counter < 0:
                self.counter = run.skip
        return drawn


@pytest.mark.parametrize("frame_skip", [1, 2, 4, 12])
def test_the_last_frame_of_any_run_is_drawn_and_steps_go_on_from_there(frame_skip):
    for counter in range(frame_skip):
        for frames in range(1, 40):
            core = Counter(counter - discarded_frames(counter, frames))
            drawn = [frame for run in frame_runs(core.counter, frames, frame_skip) for frame in core.run(run)]
            assert len(drawn) == frames
            assert drawn[-1]
            assert sum(drawn) <= 2, "more was drawn than must be"
            assert core.counter == frame_skip - 1


def test_a_step_in_the_rhythm_draws_one_frame():
    core = Counter(11)
    for _ in range(5):
        assert [frame for run in frame_runs(core.counter, 12, 12) for frame in core.run(run)] == [False] * 11 + [True]


@pytest.mark.parametrize("frame_skip", [1, 4, 6, 12])
def test_undrawn_frames_change_nothing(mgba, machine, frame_skip):
    all_drawn, skipping = machine(mgba, save=True), machine(mgba, frame_skip=frame_skip, save=True)
    assert skipping.abilities.skips_drawing
    chance, states = random.Random(frame_skip), []
    for _ in range(ROUNDS):
        pad, what = chance.choice(PADS), chance.choice(("step", "step", "step", "advance", "save", "load"))
        if what == "save":
            states.append((all_drawn.save(), skipping.save(), sight(all_drawn)))
        elif what == "load" and states:
            one, other, then = chance.choice(states)
            all_drawn.load(one)
            skipping.load(other)
            assert sight(skipping) == then
        else:
            frames = frame_skip if what == "step" else chance.randint(1, 3 * frame_skip)
            for _ in range(frames):
                all_drawn.step(pad)
            skipping.step(pad) if what == "step" else skipping.advance(frames, pad)
        assert sight(skipping) == sight(all_drawn)


def test_undrawn_frames_are_really_left_out(mgba, machine):
    """The core's own buffer still shows the frame before, one frame before a step's end."""
    emulator = machine(mgba, frame_skip=12)
    emulator.step(0)
    before = sight(emulator)["picture"]
    emulator._game.run(11)
    assert sight(emulator)["picture"] == before
    emulator._game.run(1)
    assert sight(emulator)["picture"] != before


@pytest.mark.parametrize("name", ["fceumm", "gambatte"])
def test_cores_that_cannot_leave_frames_out_draw_them_all(name, machine):
    core = core_named(name)
    one_by_one, in_steps = machine(core), machine(core, frame_skip=4)
    assert not in_steps.abilities.skips_drawing
    for pad in PADS:
        for _ in range(4):
            one_by_one.step(pad)
        in_steps.step(pad)
        assert sight(in_steps) == sight(one_by_one)
    one_by_one.advance(3, 0)
    in_steps.advance(3, 0)
    assert sight(in_steps) == sight(one_by_one)


def test_at_least_one_frame_must_be_run(core, machine):
    with pytest.raises(EmulatorError, match="at least one frame"):
        machine(core).advance(0, 0)
