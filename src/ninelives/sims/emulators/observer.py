"""What an agent observes of a machine: its screen and the chosen fields of its memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from ninelives.errors import ConfigError
from ninelives.sims.emulators.machine import Machine
from ninelives.sims.emulators.memory_map import MemoryMap, Ram
from ninelives.sims.emulators.ram import RamReader
from ninelives.sims.emulators.screen import Image, Screen, ScreenPipeline

SCREEN = "screen"
"""The key of the picture in an observation that also has fields."""


class Observer:
    """Observes one machine and reads its memory once per step.

    Attributes:
        space: the observation space.
        ram: every field of the map, as of the last read.
    """

    def __init__(
        self,
        machine: Machine,
        frame_skip: int,
        screen: Screen | None,
        memory_map: MemoryMap | None,
        observe: Sequence[str],
    ) -> None:
        self._machine, self._frame_skip = machine, frame_skip
        self._reader = None if memory_map is None else RamReader(memory_map, machine.memory)
        self._pipeline = None if screen is None else ScreenPipeline(screen, machine.picture())
        self._flickers = screen is not None and screen.max_of_two  # then the machine's own step is one frame
        self.ram = self._read()
        check_names("observe", observe, self.ram)
        if self._pipeline is not None and SCREEN in observe:
            raise ConfigError(
                f"observe: {SCREEN!r} is the key of the picture in an observation; give the field another name, or "
                "observe no picture: screen=None"
            )
        self._spaces: dict[str, gymnasium.Space[Any]] = {name: self._space(name) for name in observe}
        if self._pipeline is None and not self._spaces:
            raise ConfigError("nothing is observed: give a screen, or a memory map and names to observe")
        self.space = self._whole_space()

    def _space(self, name: str) -> gymnasium.spaces.Box:
        assert self._reader is not None
        return self._reader.space(name, self.ram[name])

    def _whole_space(self) -> gymnasium.Space[Any]:
        if self._pipeline is None:
            return gymnasium.spaces.Dict(self._spaces)
        if not self._spaces:
            return self._pipeline.space
        return gymnasium.spaces.Dict({SCREEN: self._pipeline.space, **self._spaces})

    def _read(self) -> dict[str, Any]:
        return {} if self._reader is None else self._reader.read()

    def begin(self) -> None:
        """Start an episode at the machine's current state."""
        self.ram = self._read()
        if self._pipeline is not None:
            self._pipeline.begin(self._pipeline.image(self._machine.picture()))

    def step(self, pad: int) -> tuple[Ram, Ram]:
        """Run the machine for one step; returns memory before and after it."""
        before, other = self.ram, None
        if self._flickers and self._pipeline is not None:
            self._machine.advance(self._frame_skip - 1, pad)
            other = self._pipeline.seen(self._machine.picture())
            self._machine.advance(1, pad)
        else:
            self._machine.step(pad)
        if self._pipeline is not None:
            self._pipeline.push(self._pipeline.image(self._machine.picture(), other))
        self.ram = self._read()
        return before, self.ram

    def observation(self) -> Any:
        """The current observation, in new arrays."""
        if not self._spaces and self._pipeline is not None:
            return self._pipeline.observation()
        fields: dict[str, npt.NDArray[Any]] = {
            name: np.array(self.ram[name], space.dtype, ndmin=1) for name, space in self._spaces.items()
        }
        return fields if self._pipeline is None else {SCREEN: self._pipeline.observation(), **fields}

    def save(self) -> list[Image]:
        """The stacked images; memory is part of the machine's state."""
        return [] if self._pipeline is None else list(self._pipeline.stack)

    def fits(self, stack: Any) -> bool:
        """Whether these are images that ``save`` could have returned."""
        ours = self.save()
        return isinstance(stack, list) and len(stack) == len(ours) and all(map(_alike, stack, ours))

    def load(self, stack: list[Image]) -> None:
        """Continue with these images; the machine was loaded just before."""
        if self._pipeline is not None:
            self._pipeline.stack = list(stack)
        self.ram = self._read()


def check_names(key: str, names: Sequence[str], known: Mapping[str, Any]) -> None:
    """Reject names of fields that do not exist."""
    if isinstance(names, str):
        raise ConfigError(f"{key}={names!r} must be a list of names, not one string")
    if not isinstance(names, tuple | list):
        raise ConfigError(f"{key}={names!r} must be a list of names; () for none")
    for name in names:
        if not isinstance(name, str) or name not in known:
            raise ConfigError(
                f"{key}: there is no {name!r}; allowed: {', '.join(known) or 'nothing without a memory map'}"
            )


def _alike(one: Any, other: Image) -> bool:
    return isinstance(one, np.ndarray) and one.shape == other.shape and one.dtype == other.dtype
