"""A machine with a pad in a slot: an action is the pad itself, an observation the whole picture and a hash of it all.

An environment for people and movies rather than for learners: no rewards and no ends. It runs in a worker like any
other, so that a core that crashes takes nothing with it and is brought back where it was.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from ninelives.sims.emulators.backends import open_emulator
from ninelives.sims.emulators.emulator import BUTTONS
from ninelives.sims.emulators.movies import HASH_BYTES, Hasher
from ninelives.sims.emulators.places import here
from ninelives.sims.emulators.screen import rgb_of
from ninelives.sims.emulators.snapshot import Snapshot
from ninelives.sims.emulators.starts import FIRST_FRAME, booted


class Console(gymnasium.Env[Any, Any]):
    """One game in one machine, played by pads.

    Args:
        rom: the game's file.
        core: the emulator; by default the best that is found.
        frame_skip: frames of a step.
        hashed: whether steps are hashed, which costs about half a millisecond each.
    """

    def __init__(
        self,
        rom: str | Path,
        *,
        core: str | None = None,
        frame_skip: int = 1,
        hashed: bool = False,
    ) -> None:
        self._machine = open_emulator(here(rom), core=core, frame_skip=frame_skip)
        try:
            self._start = booted(self._machine, FIRST_FRAME)
            self._shape = rgb_of(self._machine.picture()).shape
        except BaseException:
            self._machine.close()
            raise
        self._hasher = Hasher(self._machine) if hashed else None
        self.action_space = gymnasium.spaces.Discrete(1 << len(BUTTONS))
        self.observation_space = gymnasium.spaces.Dict(
            {
                "picture": gymnasium.spaces.Box(0, 255, self._shape, np.uint8),
                "hash": gymnasium.spaces.Box(0, 255, (HASH_BYTES,), np.uint8),
            }
        )

    def facts(self) -> dict[str, Any]:
        """What a player needs to know of the machine."""
        machine = self._machine
        identity = dataclasses.asdict(machine.identity)
        return {"identity": identity, "buttons": machine.buttons, "frames_per_s": machine.frames_per_s}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Switch the machine on: its first frame is drawn."""
        super().reset(seed=seed)
        self._machine.load(self._start)
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Hold a pad for a step."""
        self._machine.step(int(action))
        return self._seen(), 0.0, False, False, {}

    def _seen(self) -> dict[str, npt.NDArray[np.uint8]]:
        hashed = np.zeros(HASH_BYTES, np.uint8)
        if self._hasher is not None:
            hashed = np.frombuffer(self._hasher.now(), np.uint8)
        return {"picture": self._framed(rgb_of(self._machine.picture())), "hash": hashed}

    def _framed(self, image: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """In the size of the first picture, which some machines change while they run."""
        if image.shape == self._shape:
            return image
        framed = np.zeros(self._shape, np.uint8)
        height, width = min(image.shape[0], self._shape[0]), min(image.shape[1], self._shape[1])
        framed[:height, :width] = image[:height, :width]
        return framed

    def moment(self) -> bytes:
        """This moment as a state file holds it."""
        return Snapshot(self._machine.identity, self._machine.save()).to_bytes(compress=True)

    def go_to(self, moment: bytes) -> dict[str, npt.NDArray[np.uint8]]:
        """Be at a moment from a state file, and look.

        Raises:
            CheckpointError: damaged, newer, or of another game or core.
        """
        self.load_state(moment)
        return self._seen()

    def save_state(self) -> bytes:
        """Everything that decides what comes next."""
        return Snapshot(self._machine.identity, self._machine.save()).to_bytes()

    def load_state(self, state: bytes) -> None:
        """Be exactly there."""
        self._machine.load(Snapshot.from_bytes(state, self._machine.identity).machine)

    def close(self) -> None:
        """Unload the game."""
        self._machine.close()
