"""StateMaker: makes state files. Boots a game, replays a movie or imports an emulator's own state, then saves.

It is a Gymnasium environment only so that it can run in a worker: raw states and unknown ROMs are handled by native
code that may crash its process.
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
    """One machine with one game. Its methods are called with ``pool.call``; it is never stepped."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.uint8)
    action_space = gymnasium.spaces.Discrete(1)

    def __init__(
        self, rom: str | Path, *, core: str | None = None, system: str | None = None, frame_skip: int = 1
    ) -> None:
        self._machine = open_emulator(user_path(rom), core=core, system=system, frame_skip=frame_skip)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Do nothing."""
        super().reset(seed=seed)
        return np.zeros(1, np.uint8), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Do nothing."""
        return np.zeros(1, np.uint8), 0.0, False, False, {}

    def close(self) -> None:
        """Unload the game."""
        self._machine.close()

    def boot(self, script: Boot) -> bytes:
        """The state after a boot script, from power-on."""
        return self._verified(booted(self._machine, script), "the moment after boot")

    def play_movie(self, movie: bytes) -> bytes:
        """The state after the last step of a movie.

        Raises:
            EmulatorError: a step differs from the recording.
        """
        recorded = Movie.from_bytes(movie)
        check_identity(recorded.identity, self._machine.identity)
        if recorded.start:
            self._machine.load(Snapshot.from_bytes(recorded.start, self._machine.identity).machine)
        else:
            booted(self._machine, FIRST_FRAME)
        for number, is_equal in enumerate(replayed(recorded, self._machine)):
            if not is_equal:
                raise EmulatorError(f"step {number} of the movie differs from the recording; see `ninelives replay`")
        return self._verified(self._machine.save(), "the moment after the movie")

    def adopt(self, core: bytes) -> bytes:
        """An emulator's own state, run for one frame because it contains no picture.

        Raises:
            EmulatorError: the core rejects it.
            CheckpointError: it is not a state of that core.
        """
        check_kind(core, self._machine.identity.core)
        # Without a cartridge: some cores learn its kind and size from the state.
        self._machine.load(dataclasses.replace(self._machine.save(), core=core, cartridge=b""))
        self._machine.advance(1, 0)
        return self._verified(self._machine.save(), "the raw state")

    def _verified(self, state: MachineState, name: str) -> bytes:
        verify(self._machine, state, name)
        return Snapshot(self._machine.identity, state).to_bytes(compress=True)
