"""A machine from which moments are taken: boots a game, replays a movie or takes in a raw state, then saves.

An environment in name only, so that a worker can hold it: raw states and unknown ROMs run native code, which may end
the process it runs in.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from ninelives.errors import EmulatorError
from ninelives.sims.emulators.backends import open_emulator
from ninelives.sims.emulators.machine import MachineState
from ninelives.sims.emulators.movies import Movie, replayed
from ninelives.sims.emulators.raw_states import check_kind
from ninelives.sims.emulators.snapshot import Snapshot, check_identity
from ninelives.sims.emulators.starts import FIRST_FRAME, Boot, booted, verify
from ninelives.sims.emulators.user_paths import user_path


class StateMaker(gymnasium.Env[Any, Any]):
    """One machine with one game; nobody plays it."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.uint8)
    action_space = gymnasium.spaces.Discrete(1)

    def __init__(
        self, rom: str | Path, *, core: str | None = None, system: str | None = None, frame_skip: int = 1
    ) -> None:
        self._machine = open_emulator(user_path(rom), core=core, system=system, frame_skip=frame_skip)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Nothing to begin."""
        super().reset(seed=seed)
        return np.zeros(1, np.uint8), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Nothing to play."""
        return np.zeros(1, np.uint8), 0.0, False, False, {}

    def close(self) -> None:
        """Unload the game."""
        self._machine.close()

    def boot(self, script: Boot) -> bytes:
        """The moment after a boot script, from power-on."""
        return self._kept(booted(self._machine, script), "the moment after boot")

    def play_movie(self, movie: bytes) -> bytes:
        """The moment after the last step of a movie.

        Raises:
            EmulatorError: a step came out differently than it was recorded.
        """
        film = Movie.from_bytes(movie)
        check_identity(film.identity, self._machine.identity)
        if film.start:
            self._machine.load(Snapshot.from_bytes(film.start, self._machine.identity).machine)
        else:
            booted(self._machine, FIRST_FRAME)
        for number, as_recorded in enumerate(replayed(film, self._machine)):
            if not as_recorded:
                raise EmulatorError(f"step {number} of the movie came out differently: `ninelives replay` looks closer")
        return self._kept(self._machine.save(), "the moment after the movie")

    def adopt(self, core: bytes) -> bytes:
        """The moment of a raw state and one frame, for it has no picture.

        Raises:
            EmulatorError: the core refuses it.
            CheckpointError: it is none of that core's.
        """
        check_kind(core, self._machine.identity.core)
        # Without a cartridge: which kind it has, and how large it is, some cores learn from the state.
        self._machine.load(dataclasses.replace(self._machine.save(), core=core, cartridge=b""))
        self._machine.advance(1, 0)
        return self._kept(self._machine.save(), "the raw state")

    def _kept(self, moment: MachineState, name: str) -> bytes:
        verify(self._machine, moment, name)
        return Snapshot(self._machine.identity, moment).to_bytes(compress=True)
