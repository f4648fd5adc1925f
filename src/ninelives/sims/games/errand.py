"""Rook's Errand as an environment: memory map, rewards, and the goals of an episode.

The game comes with the package (``roms/errand``). Like large games of its console it keeps its state in blocks that
move at every change of map, so everything is read through two pointers. ``roms/errand/MEMORY.md`` has the whole layout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ninelives.sims.emulators.env import EmulatorEnv
from ninelives.sims.emulators.memory_map import Field, MemoryMap, Ram
from ninelives.sims.emulators.rewards import delta, equals, gained, per_step
from ninelives.sims.emulators.screen import AnyScreen, screen_of
from ninelives.sims.games.embedded import check_choices, embedded

Goal = Literal["meadow", "key", "ring", "spoon", "crown", "errand"]

SAVE_BLOCK_1, SAVE_BLOCK_2 = 0x03005000, 0x03005004
"""Addresses of the pointers to the two save blocks: ``gSaveBlock1Ptr`` and ``gSaveBlock2Ptr``."""

MAIN, MAP, TRAIL, MOVERS = 0x0300500C, 0x02010000, 0x02011000, 0x02012000
"""``gMain``, ``gMap`` (width, height, cells), ``gTrail`` (hops to the next thing, by cell) and ``gMovers``."""

MAPS = ("nest", "meadow", "hedges", "river", "tower")
MODES = ("title", "play", "leave", "arrive", "caught", "splash", "won", "night", "pause")
ITEMS = ("key", "ring", "spoon", "crown")
ACTIONS = ("noop", "up", "down", "left", "right", "a")
BOOT = (("noop", 30), ("start", 4), ("noop", 30))
"""From power-on past the title to the start of the game."""

HOP = 12
"""Frames per hop: with this frame skip a step is one hop, and a fade takes two."""

MOST_STEPS: Mapping[Goal, int] = {"meadow": 128, "key": 384, "ring": 512, "spoon": 768, "crown": 1024, "errand": 1500}
"""Length limit of an episode by goal. The day in the game lasts 1,500 hops."""

OBSERVED = ("mode", "map", "x", "y", "facing", "hop", "items", "home", "daylight", "freeze", "tide", "movers")
"""What is observed instead of the picture with ``observe="ram"``."""


def _behind(offset: int, kind: str = "u8", **more: Any) -> Field:
    """A field of save block 1; zero before the game has set the pointer."""
    return Field(offset, kind, pointer=SAVE_BLOCK_1, null=0, **more)


MEMORY = MemoryMap(
    {
        "x": _behind(0x00, "i16"),
        "y": _behind(0x02, "i16"),
        "map": _behind(0x04),
        "facing": _behind(0x05),
        "items": _behind(0x08, "u16"),
        "home": _behind(0x0A, "u16"),
        "events": _behind(0x0C, "u32"),
        "daylight": _behind(0x10, "u32"),
        "score": _behind(0x14, "u32"),
        "way": _behind(0x18, "u16"),
        "best": _behind(0x1A, "u16"),
        "hops": _behind(0x1C, "u16"),
        "caught": _behind(0x1E, "u16"),
        "caws": _behind(0x20, "u16"),
        "rests": _behind(0x22, "u16"),
        "wins": Field(0x0C, "u16", pointer=SAVE_BLOCK_2, null=0),
        "ticks": Field(MAIN, "u32"),
        "mode": Field(MAIN + 4),
        "hop": Field(MAIN + 6),
        "objective": Field(MAIN + 7),
        "freeze": Field(MAIN + 12, "u16"),
        "caw_pause": Field(MAIN + 14, "u16"),
        "tide": Field(MAIN + 16, "u16"),
        "rng": Field(0x03005008, "u32"),
        "width": Field(MAP, "u32"),
        "height": Field(MAP + 4, "u32"),
        "movers": Field(MOVERS, "i16", shape=(8, 4)),
    }
)
"""The four numbers of a mover: column, row, direction (two bytes), kind and remaining ticks of its step (two bytes)."""


def _has(bit: int) -> Any:
    return lambda ram: int(bool(ram["items"] >> bit & 1))


SUCCESS: Mapping[Goal, Any] = {
    "meadow": lambda ram: int(ram["map"] == 1),
    "key": _has(0),
    "ring": _has(1),
    "spoon": _has(2),
    "crown": _has(3),
    "errand": lambda ram: int(ram["mode"] == MODES.index("won")),
}
"""Whether a goal is reached, by goal. Everything before it on the errand is rewarded too."""


def memory_of(goal: Goal) -> MemoryMap:
    """The game's memory, with ``success`` for this goal and ``maps_seen``."""
    derived = {"success": SUCCESS[goal], "maps_seen": _maps_seen}
    return MemoryMap(MEMORY.fields, derived)


def _maps_seen(ram: Ram) -> int:
    return int((ram["events"] & 0x1F).bit_count())


def make(
    goal: Goal = "key",
    *,
    observe: Literal["screen", "ram", "both"] = "screen",
    core: str | None = None,
    state: str | Path | Sequence[str | Path] | None = None,
    frame_skip: int = HOP,
    screen: AnyScreen = None,
    sticky: float = 0.0,
    max_steps: int | None = None,
    render_mode: str | None = "rgb_array",
) -> EmulatorEnv:
    """The game as an environment.

    Args:
        goal: the goal of an episode. ``"key"``, the default, is learned in minutes; ``"errand"`` is the whole game.
        observe: the picture, the game's memory, or both.
        core: an emulator's name or file; by default the best one installed.
        state: a state file that episodes start from; by default they start in the nest, on a new day.
        frame_skip: frames per step.
        screen: how the picture is observed: a ``Screen``, or its fields by name; by default gray, 84 x 84.
        sticky: probability that a step repeats the buttons of the previous step.
        max_steps: length limit of an episode; by default one that fits the goal.
        render_mode: ``"rgb_array"`` or None.

    Raises:
        ConfigError: an unknown goal or kind of observation.
    """
    check_choices(goal, SUCCESS, observe)
    return embedded(
        "ninelives/Errand-v0",
        observe=observe,
        observed=OBSERVED,
        screen=screen_of(screen),
        core=core,
        state=state,
        frame_skip=frame_skip,
        actions=ACTIONS,
        sticky=sticky,
        memory=memory_of(goal),
        info=("success", "maps_seen", "best"),
        rewards=(
            (-0.1 * delta("way")).named("way"),
            (5.0 * gained("success")).named("success"),
            (-0.2 * gained("caught")).named("caught"),
            per_step(-0.005).named("time"),
        ),
        ends=(equals("success", 1).named(goal), equals("mode", MODES.index("night")).named("night")),
        max_steps=MOST_STEPS[goal] if max_steps is None else max_steps,
        boot=() if state else BOOT,
        render_mode=render_mode,
    )
