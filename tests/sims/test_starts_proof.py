"""Episodes begin only where a machine comes back exactly; one that does not is refused by name."""

from __future__ import annotations

import numpy as np
import pytest

from ninelives import EmulatorError
from ninelives.sims.emulators.starts import Starts


class Drifting:
    """A machine that comes back a frame later each time that it is loaded."""

    def __init__(self, machine):
        self._machine, self._loads = machine, 0

    def __getattr__(self, name):
        return getattr(self._machine, name)

    def load(self, state):
        self._machine.load(state)
        self._loads += 1
        self._machine.advance(self._loads, 0)


def test_a_machine_that_drifts_may_be_built_but_begins_no_episode(machine, new_mgba):
    starts = Starts(Drifting(machine(new_mgba, frame_skip=2)), (), ())
    for _ in range(2):
        with pytest.raises(EmulatorError, match=r"the moment after boot: mGBA .* does not restore this state exactly"):
            starts.choose(np.random.default_rng(0), None)
