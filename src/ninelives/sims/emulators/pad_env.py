"""PadEnv: a game played by raw pad input. An action is the pad's bit mask, an observation the whole picture and a hash.

For playing by hand and for movies rather than for learning: no rewards, no end of an episode. It runs in a worker like
any other environment, so a crashing core does not take the program with it and is healed.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from ninelives.sims.emulators.backends import open_emulator
from ninelives.sims.emulators.machine import BUTTONS
from ninelives.sims.emulators.movies import HASH_BYTES, Hasher
from ninelives.sims.emulators.screen import rgb_of
from ninelives.sims.emulators.snapshot import Snapshot
from ninelives.sims.emulators.starts import FIRST_FRAME, booted
from ninelives.sims.emulators.user_paths import user_path


class PadEnv(gymnasium.Env[Any, Any]):
    """One game in one machine, played by pad input.

    Args:
        rom: the ROM file.
        core: the emulator; by default the best one installed.
        frame_skip: frames per step.
        hashed: whether every step is hashed, which costs about half a millisecond each.
    """

    def __init__(
        self,
        rom: str | Path,
        *,
        core: str | None = None,
        frame_skip: int = 1,
        hashed: bool = False,
    ) -> None:
        self._machine = open_emulator(user_path(rom), core=core, frame_skip=frame_skip)
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
        """What a player needs to know about the machine."""
        machine = self._machine
        identity = dataclasses.asdict(machine.identity)
        return {"identity": identity, "buttons": machine.buttons, "frames_per_s": machine.frames_per_s}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Go back to power-on; the first frame is drawn."""
        super().reset(seed=seed)
        self._machine.load(self._start)
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Hold the buttons of a pad for one step."""
        self._machine.step(int(action))
        return self._seen(), 0.0, False, False, {}

    def _seen(self) -> dict[str, npt.NDArray[np.uint8]]:
        hashed = np.zeros(HASH_BYTES, np.uint8)
        if self._hasher is not None:
            hashed = np.frombuffer(self._hasher.now(), np.uint8)
        return {"picture": self._framed(rgb_of(self._machine.picture())), "hash": hashed}

    def _framed(self, image: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """The image in the size of the first picture; some machines change the size while they run."""
        if image.shape == self._shape:
            return image
        framed = np.zeros(self._shape, np.uint8)
        height, width = min(image.shape[0], self._shape[0]), min(image.shape[1], self._shape[1])
        framed[:height, :width] = image[:height, :width]
        return framed

    def moment(self) -> bytes:
        """The current state in the form of a state file."""
        return Snapshot(self._machine.identity, self._machine.save()).to_bytes(compress=True)

    def go_to(self, moment: bytes) -> dict[str, npt.NDArray[np.uint8]]:
        """Restore the state of a state file and return the observation there.

        Raises:
            CheckpointError: the state is damaged, from a newer version, or from another game or core.
        """
        self.load_state(moment)
        return self._seen()

    def save_state(self) -> bytes:
        """The complete state."""
        return Snapshot(self._machine.identity, self._machine.save()).to_bytes()

    def load_state(self, state: bytes) -> None:
        """Restore a saved state exactly."""
        self._machine.load(Snapshot.from_bytes(state, self._machine.identity).machine)

    def close(self) -> None:
        """Unload the game."""
        self._machine.close()
