"""Ways in which files get broken, and an environment that tries broken ROMs."""

from __future__ import annotations

import random
from pathlib import Path

import gymnasium
import numpy as np
from tiny_roms import ROMS

from ninelives.errors import ConfigError, EmulatorError
from ninelives.sims.emulators.env import EmulatorEnv
from ninelives.sims.emulators.screen import Screen

REFUSED, PLAYED, UNCLEAR = range(3)


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Bits flipped, a part lost, zeroed, mixed with rubbish or replaced by it. May come out unchanged."""
    out = bytearray(data)
    at, size = rng.randrange(len(out)), rng.randrange(1, 64)
    match rng.randrange(6):
        case 0:
            for _ in range(rng.randrange(1, 9)):
                out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
        case 1:
            del out[at:]
        case 2:
            del out[at : at + size]
        case 3:
            out[at:at] = rng.randbytes(size)
        case 4:
            out[at : at + size] = bytes(len(out[at : at + size]))
        case 5:
            out[:] = rng.randbytes(rng.randrange(200))
    return bytes(out)


class RomTaster(gymnasium.Env):
    """A step opens the damaged ROM with the number of the action, plays it for a moment, and says how that went."""

    action_space = gymnasium.spaces.Discrete(1 << 30)
    observation_space = gymnasium.spaces.Box(0, 2, (1,), np.uint8)

    def __init__(self, core: str, system: str) -> None:
        self._core, self._system = core, system
        self._rom = ROMS[system](save=True)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.uint8), {}

    def step(self, action):
        rom = Path(f"damaged.{self._system}").resolve()
        rom.write_bytes(damaged(self._rom, random.Random(int(action))))
        try:
            outcome, info = self._play(rom), {}
        except (EmulatorError, ConfigError) as error:
            outcome, info = REFUSED, {"error": str(error)}
        except Exception as error:
            outcome, info = UNCLEAR, {"error": repr(error)}
        return np.array([outcome], np.uint8), 0.0, False, False, info

    def _play(self, rom: Path) -> int:
        env = EmulatorEnv(rom, core=self._core, frame_skip=2, screen=Screen(color="rgb", size=None))
        try:
            env.reset(seed=0)
            for action in range(3):
                env.step(action)
        finally:
            env.close()
        return PLAYED
