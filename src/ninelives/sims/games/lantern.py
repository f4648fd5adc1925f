"""Lantern as an environment: memory map, rewards, and the goals of an episode.

The game comes with the package (``roms/lantern``): a platformer of three nights with a memory layout like that of
famous ones: page and low byte of x, decimal digits of the time, and no time on the title screen.
``roms/lantern/MEMORY.md`` has the whole layout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ninelives.sims.emulators.env import EmulatorEnv
from ninelives.sims.emulators.memory_map import Field, MemoryMap, Ram
from ninelives.sims.emulators.rewards import equals, gained, lost, progress
from ninelives.sims.emulators.screen import AnyScreen, screen_of
from ninelives.sims.games.embedded import check_choices, embedded

Goal = Literal["lighthouse", "coast"]

MODES = ("title", "play", "dying", "clear", "won", "over")
ACTIONS = ("noop", "right", "right+a", "right+b", "right+a+b", "a", "left")
BOOT = (("noop", 40), ("start", 4), ("noop", 8))
"""From power-on past the title to the first night."""

NIGHT = 512
"""Width of one night's level in pixels."""

MOST_STEPS: Mapping[Goal, int] = {"lighthouse": 400, "coast": 2400}
"""Length limit of an episode by goal: slightly more than the time limit of the game."""

OBSERVED = ("mode", "night", "x", "y", "x_speed", "y_speed", "grounded", "time", "moth_x", "moth_y")
"""What is observed instead of the picture with ``observe="ram"``."""


def _paged(page: str, low: str) -> Any:
    return lambda ram: ram[page] * 256 + ram[low]


def _far(ram: Ram) -> int:
    return int(ram["night"] * NIGHT + ram["x"])


FIELDS = {
    "mode": Field(0x04),
    "night": Field(0x05),
    "lives": Field(0x06),
    "x_page": Field(0x07),
    "x_low": Field(0x08),
    "y": Field(0x0A),
    "x_speed": Field(0x0C, "i8"),
    "y_speed": Field(0x0D, "i8"),
    "grounded": Field(0x0E),
    "time": Field(0x10, "digits", count=3, endian="big"),
    "flag": Field(0x14),
    "moth_page": Field(0x18, count=2),
    "moth_low": Field(0x1A, count=2),
    "moth_y": Field(0x1C, count=2),
}
"""All of them are in the first page of memory."""

SUCCESS: Mapping[Goal, Any] = {
    "lighthouse": lambda ram: int(ram["flag"] or ram["night"] > 0),
    "coast": lambda ram: int(ram["mode"] == MODES.index("won")),
}
"""Whether a goal is reached, by goal."""


def memory_of(goal: Goal) -> MemoryMap:
    """The game's memory, with ``x`` in pixels, ``far`` over all nights, and ``success`` for this goal."""
    moth_x = lambda ram: ram["moth_page"].astype("i4") * 256 + ram["moth_low"]  # noqa: E731
    derived = {"x": _paged("x_page", "x_low"), "far": _far, "moth_x": moth_x, "success": SUCCESS[goal]}
    return MemoryMap(FIELDS, derived)


def make(
    goal: Goal = "lighthouse",
    *,
    observe: Literal["screen", "ram", "both"] = "screen",
    core: str | None = None,
    state: str | Path | Sequence[str | Path] | None = None,
    frame_skip: int = 4,
    screen: AnyScreen = None,
    sticky: float = 0.0,
    max_steps: int | None = None,
    render_mode: str | None = "rgb_array",
) -> EmulatorEnv:
    """The game as an environment.

    Args:
        goal: ``"lighthouse"``: the first night with one life; ``"coast"``: three nights with three lives.
        observe: the picture, the game's memory, or both.
        core: an emulator's name or file; by default the best one installed.
        state: a state file that episodes start from; by default they start at the beginning of the first night.
        frame_skip: frames per step.
        screen: how the picture is observed: a ``Screen``, or its fields by name; by default gray, 84 x 84.
        sticky: probability that a step repeats the buttons of the previous step.
        max_steps: length limit of an episode; by default one that fits the goal.
        render_mode: ``"rgb_array"`` or None.

    Raises:
        ConfigError: an unknown goal or kind of observation.
    """
    check_choices(goal, SUCCESS, observe)
    ends = [equals("success", 1).named(goal), equals("mode", MODES.index("over")).named("over")]
    if goal == "lighthouse":
        ends.append(equals("mode", MODES.index("dying")).named("dying"))
    return embedded(
        "ninelives/Lantern-v0",
        observe=observe,
        observed=OBSERVED,
        screen=screen_of(screen),
        core=core,
        state=state,
        frame_skip=frame_skip,
        actions=ACTIONS,
        sticky=sticky,
        memory=memory_of(goal),
        info=("success", "far", "time"),
        rewards=(
            (0.02 * progress("far")).named("way"),
            (5.0 * gained("flag")).named("flag"),
            (-1.0 * lost("lives")).named("lives"),
            (-0.02 * lost("time")).named("time"),
        ),
        ends=ends,
        max_steps=MOST_STEPS[goal] if max_steps is None else max_steps,
        boot=() if state else BOOT,
        render_mode=render_mode,
    )
