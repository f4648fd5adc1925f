"""Super Mario Bros. for the NES, with the user's own ROM: memory map, reward shaping, and skipping the start screen.

``ninelives/Mario-v0``. Nothing of the game is included: the ROM is given by ``rom=``. Addresses have the names of the
public disassembly (``SMBDIS.ASM`` by doppelganger).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ninelives.errors import ConfigError, EmulatorError
from ninelives.sims.emulators.actions import NOOP, pad_named
from ninelives.sims.emulators.backends import open_emulator
from ninelives.sims.emulators.env import EmulatorEnv, check_own
from ninelives.sims.emulators.machine import Machine
from ninelives.sims.emulators.memory_map import Field, MemoryMap, Ram
from ninelives.sims.emulators.ram import RamReader
from ninelives.sims.emulators.rewards import Term, equals, flag, weighted
from ninelives.sims.emulators.screen import AnyScreen, Screen
from ninelives.sims.games.revisions import Edition, checked_rom

EDITION = Edition(
    title="Super Mario Bros.",
    system="nes",
    expected="World, the cartridge of 1985",
    sha1="facee9c577a5262dbe33ac4930bb0b58c8c037f7",
    others={},
    id="ninelives/Mario-v0",
)
"""The checksum is of program and character ROM without the header, as in stable-retro's public list."""

PLAYING, VICTORY = 1, 2
"""``OperMode``: a stage is played; a castle is won."""
AT_FLAG, AFTER_FLAG, LOSING_LIFE, CONTROLLED, DYING = 0x04, 0x05, 0x06, 0x08, 0x0B
"""``GameEngineSubroutine``: the state of the player."""
BELOW = 2
"""``Player_Y_HighPos`` from which the player has fallen into a hole, or, in a coin heaven, is leaving it."""
LAST_WORLD = 7
"""``WorldNumber`` of the last castle."""

FIELDS = {
    "engine": Field(0x0E),  # GameEngineSubroutine
    "float_state": Field(0x1D),  # Player_State: 3 on the flagpole or a vine
    "x_page": Field(0x6D),  # Player_PageLoc
    "x_in_page": Field(0x86),  # Player_X_Position
    "y_page": Field(0xB5),  # Player_Y_HighPos
    "y": Field(0xCE),  # Player_Y_Position
    "cloud": Field(0x0743),  # CloudTypeOverride: not zero in a coin heaven
    "area_type": Field(0x074E),  # AreaType
    "area_offset": Field(0x074F),  # AreaAddrsLOffset: which of its type is loaded
    "status": Field(0x0756),  # PlayerStatus: small, big, fiery
    "lives": Field(0x075A, "i8"),  # NumberofLives; -1 when the game is over
    "level_number": Field(0x075C),  # LevelNumber
    "coins": Field(0x075E),  # CoinTally
    "world_number": Field(0x075F),  # WorldNumber
    "area": Field(0x0760),  # AreaNumber
    "mode": Field(0x0770),  # OperMode
    "score": Field(0x07DD, "digits", 6, endian="big"),  # PlayerScoreDisplay, without its last zero
    "time": Field(0x07F8, "digits", 3, endian="big"),  # GameTimerDisplay
}

DERIVED = {
    "x": lambda ram: ram["x_page"] * 256 + ram["x_in_page"],
    "world": lambda ram: ram["world_number"] + 1,
    "stage": lambda ram: ram["level_number"] + 1,
    "way": lambda ram: (ram["world_number"] * 4 + ram["level_number"]) * 65536 + ram["x"],
    "ground": lambda ram: (
        ram["world_number"] << 24 | ram["level_number"] << 16 | ram["area_type"] << 8 | ram["area_offset"]
    ),
    "playing": lambda ram: int(ram["mode"] == PLAYING and ram["engine"] == CONTROLLED and ram["time"] > 0),
    "flag": lambda ram: int((ram["mode"] == PLAYING and ram["engine"] in (AT_FLAG, AFTER_FLAG)) or _won_castle(ram)),
    "dying": lambda ram: int(ram["mode"] == PLAYING and _is_dying(ram)),
    "over": lambda ram: int(ram["lives"] < 0),
    "won": lambda ram: int(_won_castle(ram) and ram["world_number"] >= LAST_WORLD),
}

MEMORY = MemoryMap(FIELDS, DERIVED)
"""``way`` grows from stage to stage, ``ground`` is different in every area of every stage, and ``playing`` is 1
while the player is in control."""

ACTIONS = (NOOP, "right", "right+a", "right+b", "right+a+b", "a", "left")

WEIGHTS: Mapping[str, float] = {"dx": 0.1, "stagnation": -0.1, "flag": 15.0, "death": -5.0, "time": 0.02}
"""Value of each: a pixel to the right beyond the best on this ground, a step after ``PATIENCE`` steps without progress,
a flag, a death, a second gained on the clock (which runs down, so this is a cost)."""

OWN = ("system", "boot", "memory", "rewards", "ends", "truncates")
"""Settings of ``EmulatorEnv`` that the game sets itself."""

PATIENCE = 50
"""Steps without progress that cost nothing: waiting for a lift, a detour."""

INFO = ("x", "y", "world", "stage", "time", "lives", "score", "coins", "status", "flag")

FASTEST = 4
"""Pixels per frame that Mario cannot exceed; more is a change of area or stage."""

TITLE_FRAMES, PRESS_FRAMES, RELEASE_FRAMES = 30, 4, 12
MOST_START_FRAMES = 1800
"""Half a minute; a start takes about four seconds."""


def make(
    rom: str | Path | None = None,
    *,
    state: str | Path | Sequence[str | Path] | None = None,
    weights: Mapping[str, float] | None = None,
    one_stage: bool = True,
    one_life: bool = True,
    patience: int = 250,
    observe: Sequence[str] = (),
    max_steps: int | None = None,
    frame_skip: int = 4,
    screen: AnyScreen = Screen(crop=(32, 0, 0, 0), stack=4),  # noqa: B008  (it is frozen)
    any_revision: bool = True,
    core: str | None = None,
    **settings: Any,
) -> EmulatorEnv:
    """The game as an environment.

    Args:
        rom: your own ROM.
        state: state files that episodes start from, one or several, made by ``ninelives play``. Default: the first
            stage, with the start screen skipped.
        weights: other weights for some of the terms in ``WEIGHTS``; 0 omits a term.
        one_stage: terminate at the flag; else the game continues with the next stage, until the last castle is won.
        one_life: terminate at the first death; else when the last life is lost.
        patience: truncate the episode after this many steps in which Mario could move but made no progress.
        observe: fields to observe in addition to the screen.
        max_steps: length limit of an episode.
        frame_skip: frames per step.
        screen: how the picture is observed; by default without the status line.
        any_revision: accept an unknown ROM, with a warning.
        core: the emulator.
        settings: other settings of ``EmulatorEnv``, except those in ``OWN``.

    Raises:
        ConfigError: no ROM, a state in which Mario cannot be moved, or an invalid setting.
        EmulatorError: the start screen does not end.
    """
    check_own(EDITION.id, settings, OWN)
    if type(patience) is not int or patience < 1:
        raise ConfigError(f"patience={patience!r} must be a whole number of steps above zero")
    path = checked_rom(rom, EDITION, any_revision=any_revision)
    env = EmulatorEnv(
        path,
        core=core,
        system="nes",
        state=state,
        boot=() if state else start_script(path, core),
        frame_skip=frame_skip,
        screen=screen,
        max_steps=max_steps,
        **{"actions": ACTIONS, "info": INFO, **settings},
        memory=MEMORY,
        observe=observe,
        rewards=rewards(weights, frame_skip),
        ends=[equals("flag" if one_stage else "won", 1), equals("dying" if one_life else "over", 1)],
        truncates=[Standstill(patience)],
    )
    _check_moments(env)
    return env


def _check_moments(env: EmulatorEnv) -> None:
    """Reject states in which Mario cannot be moved, and close the environment then; else it is left as it was."""
    try:
        reader = RamReader(MEMORY, env.machine.memory)
        for name, moment in reversed(env.starts.moments()):  # the first is loaded last, as it was before
            env.machine.load(moment)
            if not reader.read()["playing"]:
                raise ConfigError(f"state: in {name} Mario cannot be moved; save another state with `ninelives play`")
    except BaseException:
        env.close()
        raise


def rewards(weights: Mapping[str, float] | None, frame_skip: int) -> list[Term]:
    """The shaping terms with their weights; terms of weight 0 are omitted.

    Raises:
        ConfigError: a weight for an unknown term.
    """
    terms: Mapping[str, Term] = {
        "dx": NewDistance(FASTEST * frame_skip),
        "stagnation": Standstill(PATIENCE),
        "flag": flag("flag"),
        "death": flag("dying"),
        "time": TimeLost(),
    }
    return weighted(terms, WEIGHTS, weights)


class NewDistance(Term):
    """Pixels to the right, each counted once: only beyond the best on this ground so far, in any life.

    So neither a death nor a castle that leads back pays for the same distance again. A jump longer than Mario can run
    is a change of area and does not count.
    """

    def __init__(self, furthest: int) -> None:
        super().__init__("dx", ["x", "ground", "playing"])
        self._furthest = furthest
        self._best: dict[int, int] = {}

    def __call__(self, before: Ram, after: Ram) -> float:
        """The new distance; zero while Mario cannot be moved, because x may belong to another area then."""
        if not after["playing"]:
            return 0
        ground, x = after["ground"], after["x"]
        if ground not in self._best:
            self._best[ground] = before["x"] if before["playing"] and before["ground"] == ground else x
        best = self._best[ground]
        self._best[ground] = max(best, x)
        return x - best if best < x <= best + self._furthest else 0

    def reset(self) -> None:
        """Forget the best positions."""
        self._best = {}

    def save(self) -> list[list[int]]:
        """The best position on every ground."""
        return [[ground, best] for ground, best in self._best.items()]

    def load(self, saved: list[Any]) -> None:
        """Restore the best positions."""
        self._best = dict(saved)


class Standstill(Term):
    """One once Mario has made no progress for ``steps`` steps in which he could be moved.

    It restarts with another life and on another ground, where the best position is a different one.
    """

    def __init__(self, steps: int) -> None:
        super().__init__("stagnation", ["x", "ground", "lives", "playing"])
        self._steps = steps
        self._best: int | None = None
        self._waited = 0

    def __call__(self, before: Ram, after: Ram) -> bool:
        """Whether he has made no progress for long enough."""
        if after["lives"] < before["lives"] or after["ground"] != before["ground"]:
            self.reset()
        if not after["playing"]:
            return False
        x = after["x"]
        best = (before["x"] if before["playing"] else x) if self._best is None else self._best
        self._waited = 0 if x > best else self._waited + 1
        self._best = max(best, x)
        return self._waited >= self._steps

    def reset(self) -> None:
        """Forget the best position and the steps since."""
        self._best, self._waited = None, 0

    def save(self) -> list[int | None]:
        """The best position and the steps since."""
        return [self._best, self._waited]

    def load(self, saved: list[Any]) -> None:
        """Restore the best position and the steps since."""
        self._best, self._waited = saved


class TimeLost(Term):
    """Seconds lost while Mario could be moved, as a negative number.

    Resetting the clock counts nothing, and neither does the countdown after the flag.
    """

    def __init__(self) -> None:
        super().__init__("time", ["time", "playing"])

    def __call__(self, before: Ram, after: Ram) -> float:
        """Zero or less."""
        return min(after["time"] - before["time"], 0) if before["playing"] and after["playing"] else 0


def start_script(rom: Path, core: str | None) -> list[tuple[str, int]]:
    """The boot script from power-on to the first moment in which Mario can be moved, found by running a machine.

    Raises:
        EmulatorError: the start screen does not end.
    """
    machine = open_emulator(rom, core=core, system="nes")
    try:
        return list(_past_start(machine))
    finally:
        machine.close()


def _past_start(machine: Machine) -> Iterator[tuple[str, int]]:
    reader = RamReader(MEMORY, machine.memory)
    frames = 0
    for name, count in _presses(reader):
        machine.advance(count, pad_named(name, machine.buttons))
        frames += count
        yield name, count
        if reader.read()["playing"]:
            return
        if frames >= MOST_START_FRAMES:
            now = reader.read()
            raise EmulatorError(
                f"the start screen has not ended after {frames} frames of pressing START (mode {now['mode']}, engine "
                f"{now['engine']}, time {now['time']}): is this {EDITION.title}? Give a state to start from: state=FILE"
            )


def _presses(reader: RamReader) -> Iterator[tuple[str, int]]:
    """Press START repeatedly while the title is shown, then wait."""
    yield NOOP, TITLE_FRAMES
    while True:
        if reader.read()["mode"] != PLAYING:
            yield "start", PRESS_FRAMES
        yield NOOP, RELEASE_FRAMES


def _won_castle(ram: Ram) -> bool:
    return bool(ram["mode"] == VICTORY)


def _is_dying(ram: Ram) -> bool:
    return ram["engine"] in (DYING, LOSING_LIFE) or (ram["y_page"] >= BELOW and not ram["cloud"])
