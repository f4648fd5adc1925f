"""Emulated games as workloads: the step that people train with, and the same step done the slow way.

Imported only where such a workload is made; needs Ninelives, OpenCV and a core. A step is so many frames, of which the
last is seen as 84 x 84 gray pixels, with eight words of memory beside it (NES: the picture alone, as with ``nes_py``).
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from ninelives.sims.emulators.env import EmulatorEnv
from ninelives.sims.emulators.machine import pad_of
from ninelives.sims.emulators.memory_map import MemoryMap
from ninelives.sims.emulators.screen import Screen
from ninelives.sims.games import errand, registry

GBA_FRAMES, NES_FRAMES = 12, 4
WORDS = ("ticks", "events", "daylight", "score", "rng", "width", "height", "hops")
"""Eight words, half of them behind a pointer."""

PADS = ("noop", "right", "left", "a")
"""One action set for all, so that every workload presses the same buttons."""


def make(name: str) -> gymnasium.Env[Any, Any]:
    """One environment of the named workload."""
    return {"errand": _errand, "errand_drawn": _errand_drawn, "lantern": _lantern, "lantern_nes_py": _nes_py}[name]()


def _errand(frame_skip: int = GBA_FRAMES) -> EmulatorEnv:
    """Drawn or not, a game ends after as many steps: at night there is less to draw."""
    memory = MemoryMap({name: errand.MEMORY.fields[name] for name in WORDS})
    rom = registry.rom_of("ninelives/Errand-v0")
    boot: Any = errand.BOOT
    return EmulatorEnv(
        rom, frame_skip=frame_skip, actions=PADS, screen=Screen(), memory=memory, observe=WORDS, boot=boot,
        max_steps=1500,
    )  # fmt: skip


class AllDrawn(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The same step on a machine that draws every frame of it."""

    def __init__(self) -> None:
        self._game = _errand(frame_skip=1)
        super().__init__(self._game)
        self._pads = [pad_of() if name == "noop" else pad_of(name) for name in PADS]

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """All frames but the last here, the last by the environment."""
        for _ in range(GBA_FRAMES - 1):
            self._game.machine.step(self._pads[action])
        return super().step(action)


def _errand_drawn() -> gymnasium.Env[Any, Any]:
    return AllDrawn()


def _lantern() -> gymnasium.Env[Any, Any]:
    rom = registry.rom_of("ninelives/Lantern-v0")
    return EmulatorEnv(rom, core="fceumm", frame_skip=NES_FRAMES, actions=PADS, screen=Screen(), max_steps=1500)


def _nes_py() -> gymnasium.Env[Any, Any]:
    return NesPyGray()


class NesPyGray(gymnasium.Env[Any, Any]):
    """The same game and picture by ``nes_py``."""

    def __init__(self) -> None:
        import cv2

        from ninelives.sims.emulators.nes_py_env import NesPyEnv

        rom = str(registry.rom_of("ninelives/Lantern-v0"))
        self._env = NesPyEnv(actions=PADS, frame_skip=NES_FRAMES, rom_path=rom)
        self._gray = lambda rgb: cv2.resize(
            cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), (84, 84), interpolation=cv2.INTER_AREA
        )
        self.observation_space = gymnasium.spaces.Box(0, 255, (84, 84), np.uint8)
        self.action_space = self._env.action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Power on."""
        obs, info = self._env.reset(seed=seed)
        return self._gray(obs), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Four frames, the last one seen."""
        obs, reward, terminated, truncated, info = self._env.step(action)
        return self._gray(obs), reward, terminated, truncated, info

    def close(self) -> None:
        """Unload it."""
        self._env.close()
