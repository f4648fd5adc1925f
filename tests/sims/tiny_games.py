"""The tiny ROMs as environments: their memory by name, and something to be rewarded for."""

from __future__ import annotations

import numpy as np
from tiny_roms import ROMS

from ninelives import EnvSpec
from ninelives.sims.emulators.env import EmulatorEnv
from ninelives.sims.emulators.rewards import delta, explored, per_step
from ninelives.sims.emulators.screen import Screen

FIRST = {"gba": (0x02000000, 4, "u32"), "nes": (0, 1, "u8"), "gb": (0xC000, 1, "u8")}
"""Address of the first variable, bytes of each, and how it is read."""

PLACES = {"gba": (0, 1, 2, 3, 4), "nes": (0, 1, 2, 4, 5), "gb": (0, 1, 2, 3, 4)}
WIDTH = {"gba": 128, "nes": 256, "gb": 256}
"""Where x begins again at zero."""


def memory_of(system):
    address, size, kind = FIRST[system]
    names = ("frame", "x", "y", "trail", "held")
    return {
        name: {"address": address + size * place, "kind": kind}
        for name, place in zip(names, PLACES[system], strict=True)
    }


def rom_file(directory, system, **kind):
    path = directory / f"tiny.{system}"
    path.write_bytes(ROMS[system](**kind))
    return path


def settings(core, rom, **changes):
    """Everything an environment can have, for one core."""
    wrap = WIDTH[core.system]
    return {
        "rom": str(rom), "core": str(core.path), "frame_skip": 4, "actions": ("noop", "right", "left", "up", "down+b"),
        "screen": Screen(stack=2), "memory": memory_of(core.system), "observe": ("x", "y"),
        "info": ("frame", "trail", "held", "reward/explored_x_y"), "boot": (("noop", 10), ("right", 3)),
        "rewards": (0.1 * delta("x", wrap=wrap), explored("x", "y"), per_step(-0.01)), "max_steps": 60, "sticky": 0.2,
        **changes,
    }  # fmt: skip


def make(core, rom, **changes):
    return EmulatorEnv(**settings(core, rom, **changes))


def spec(core, rom, **changes):
    return EnvSpec("ninelives.sims.emulators.env:EmulatorEnv", settings(core, rom, **changes))


def actions_for(seed, steps, count=5):
    return np.random.default_rng(seed).integers(0, count, steps)


def row(observation, *rest):
    """Everything about a step in a form that can be compared."""
    return {key: value.tobytes() for key, value in observation.items()}, *rest


def play(env, actions):
    """Rows of all steps; a finished episode is begun again without a seed."""
    rows = []
    for action in actions:
        observation, reward, terminated, truncated, info = env.step(action)
        rows.append(row(observation, reward, terminated, truncated, info))
        if terminated or truncated:
            rows.append(row(*env.reset()))
    return rows
