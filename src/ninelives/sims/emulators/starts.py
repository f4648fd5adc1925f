"""The states that episodes start from, each verified to be restored exactly before the first episode.

Some emulators are not deterministic at power-on, and a core may not save everything. So an episode never starts at
power-on: a boot script or the user's state files provide saved states, each is played from twice, and a machine that
does not behave the same both times is rejected.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ninelives.errors import ConfigError, EmulatorError
from ninelives.sims.emulators.actions import NOOP, pad_named
from ninelives.sims.emulators.machine import Machine, MachineState, pad_of
from ninelives.sims.emulators.state_files import read_snapshot

Boot = Sequence[tuple[str, int]]

FIRST_FRAME: Boot = ((NOOP, 1),)
"""Used without a boot script: run until there is a picture."""

TRIAL_STEPS = 3
_MOST_FRAMES = 1_000_000
_LARGEST_COMPARED = 1 << 20
"""Larger regions are ROMs."""


class Starts:
    """The states that episodes of one machine may start from; loads the first of them.

    They are verified when the first episode starts, not at construction: a machine that is built to continue a restored
    episode recovers faster without.
    """

    def __init__(self, machine: Machine, states: Sequence[Path], boot: Boot) -> None:
        self._machine = machine
        self._states = [read_snapshot(path, machine.identity).machine for path in states]
        self._names = [str(path) for path in states] or ["the moment after boot"]
        if not self._states:
            self._states = [booted(machine, boot)]
        self._is_verified = False
        machine.load(self._states[0])

    def moments(self) -> list[tuple[str, MachineState]]:
        """All states, with the names of their files."""
        return list(zip(self._names, self._states, strict=True))

    def choose(self, rng: np.random.Generator, wanted: Any) -> MachineState:
        """The state with index ``wanted``, or a random one. Draws no random number if there is only one.

        Raises:
            EmulatorError: before the first episode, if one of the states is not restored exactly.
        """
        if wanted is not None and (type(wanted) is not int or not 0 <= wanted < len(self._states)):
            raise ConfigError(f"options['state']={wanted!r} must be a number from 0 to {len(self._states) - 1}")
        self._verify_all()
        if wanted is not None:
            return self._states[wanted]
        return self._states[int(rng.integers(len(self._states)))] if len(self._states) > 1 else self._states[0]

    def _verify_all(self) -> None:
        if self._is_verified:
            return
        for name, state in self.moments():
            verify(self._machine, state, name)
        self._is_verified = True


def booted(machine: Machine, boot: Boot) -> MachineState:
    """Run a boot script, holding each action for its frames, and save.

    Raises:
        ConfigError: an entry of the script is not the name of an action and a number of frames.
    """
    for part in boot or FIRST_FRAME:
        if not isinstance(part, tuple | list) or len(part) != 2 or not isinstance(part[0], str):
            raise ConfigError(f"boot: {part!r} must be the name of an action and a number of frames, like ('start', 4)")
        name, frames = part
        if type(frames) is not int or not 0 < frames <= _MOST_FRAMES:
            raise ConfigError(f"boot: {part!r} must last 1 to {_MOST_FRAMES:,} frames")
        machine.advance(frames, pad_named(name, machine.buttons, "boot"))
    return machine.save()


def verify(machine: Machine, state: MachineState, name: str) -> None:
    """Play from a state, save on the way, and play both parts again.

    Raises:
        EmulatorError: the second time differed; the message says in which memory.
    """
    machine.load(state)
    first = _played(machine)
    on_the_way = machine.save()
    then = _played(machine)
    machine.load(on_the_way)
    _compare(then, _played(machine), machine, name)
    machine.load(state)
    _compare(first, _played(machine), machine, name)


def _compare(once: dict[str, bytes], again: dict[str, bytes], machine: Machine, name: str) -> None:
    differing = [part for part, cells in once.items() if cells != again[part]]
    if differing:
        core = f"{machine.identity.core} {machine.identity.version}"
        raise EmulatorError(
            f"{name}: {core} does not restore this state exactly: with the same buttons {differing[0]} differs after "
            f"{TRIAL_STEPS} steps; choose another core (ninelives cores), or save the state at another moment"
        )


def _played(machine: Machine) -> dict[str, bytes]:
    """Memory and picture after a few steps with changing buttons."""
    for step in range(TRIAL_STEPS):
        machine.step(pad_of(machine.buttons[step % len(machine.buttons)]) if step % 2 else 0)
    regions = [region for region in machine.memory.regions() if region[2] <= _LARGEST_COMPARED]
    cells = {name: machine.memory.view(start, size).tobytes() for name, start, size in regions}
    return {**cells, "the picture": machine.picture().pixels.tobytes()}
