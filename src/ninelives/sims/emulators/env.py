"""EmulatorEnv: an emulated game as a Gymnasium environment that can be saved and restored to the bit.

Joins a machine, named actions, a screen, named memory and terms; knows nothing about any game. Every file it opens is
only read, and what a cartridge saves stays in the slot's scratch directory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import gymnasium
import numpy as np

from ninelives.errors import CheckpointError, ConfigError, EmulatorError, UsageError
from ninelives.sims.emulators.actions import DIRECTIONS, actions_of
from ninelives.sims.emulators.backends import open_emulator
from ninelives.sims.emulators.emulator import Emulator
from ninelives.sims.emulators.generators import generator_of, generator_state
from ninelives.sims.emulators.memory_map import MemoryMap, Ram
from ninelives.sims.emulators.observer import Observer, check_names
from ninelives.sims.emulators.places import here
from ninelives.sims.emulators.rewards import AnyTerm
from ninelives.sims.emulators.screen import AnyScreen, Image, Screen, rgb_of, screen_of
from ninelives.sims.emulators.snapshot import Snapshot
from ninelives.sims.emulators.starts import Boot, Starts
from ninelives.sims.emulators.term_scorer import Tally

REWARD = "reward/"
"""Before the name of a term: the info that tells what it gave."""


class EmulatorEnv(gymnasium.Env[Any, Any]):
    """One game in one machine.

    Args:
        rom: the game's file, relative to where the program was started. Only ever read.
        core: name or file of an emulator; by default the best that is found for the system.
        system: ``gba``, ``gb``, ``nes``, ...; by default what the ROM says.
        state: a file of ``ninelives state save``, or several, of which every episode begins with one.
        frame_skip: frames in a step. The buttons are held in all of them, and the last is seen.
        actions: combinations of buttons by name, like ``("noop", "right+a")``; or ``"buttons"``: each on its own.
        sticky: probability that a step holds the buttons of the step before instead.
        screen: what of the picture is observed: a ``Screen``, or its fields by name; None: nothing.
        memory: the game's variables: a map, a mapping or a file.
        observe: variables that are observed.
        info: variables, and ``reward/NAME`` for terms of ``rewards``, that are told in infos.
        rewards: terms that add up to the reward.
        ends: terms of which any ends the episode.
        truncates: terms of which any cuts the episode off.
        max_steps: cut the episode off after so many steps.
        boot: actions and their frames, from power-on to where episodes begin; only without ``state``.
        render_mode: ``"rgb_array"`` or None.

    Attributes:
        machine: the emulator.
        starts: the moments at which episodes begin.
    """

    def __init__(
        self,
        rom: str | Path,
        *,
        core: str | Path | None = None,
        system: str | None = None,
        state: str | Path | Sequence[str | Path] | None = None,
        frame_skip: int = 4,
        actions: Sequence[str] | Literal["buttons"] = DIRECTIONS,
        sticky: float = 0.0,
        screen: AnyScreen = Screen(),  # noqa: B008  (it is frozen)
        memory: MemoryMap | Mapping[str, Any] | str | Path | None = None,
        observe: Sequence[str] = (),
        info: Sequence[str] = (),
        rewards: Sequence[AnyTerm] = (),
        ends: Sequence[AnyTerm] = (),
        truncates: Sequence[AnyTerm] = (),
        max_steps: int | None = None,
        boot: Boot = (),
        render_mode: str | None = "rgb_array",
    ) -> None:
        _check_files(rom, core, state)
        screen = screen_of(screen)
        _check(frame_skip, sticky, max_steps, screen, render_mode)
        if state and boot:
            raise ConfigError("state and boot: give one of them; a state is where a boot script would lead")
        self.render_mode, self._sticky, self._max_steps = render_mode, sticky, max_steps
        self._rewards, self._ends = Tally("rewards", rewards), Tally("ends", ends)
        self._truncates = Tally("truncates", truncates)
        states = [here(path) for path in ([state] if isinstance(state, str | Path) else state or ())]
        memory_map = _map_of(memory)
        drawn_every = 1 if screen is not None and screen.max_of_two else frame_skip
        self.machine: Emulator = open_emulator(here(rom), frame_skip=drawn_every, core=core, system=system)
        try:
            self._actions = actions_of(actions, self.machine.buttons)
            self.starts = Starts(self.machine, states, boot)
            self._observer = Observer(self.machine, frame_skip, screen, memory_map, observe)
            self._choose_infos(info)
        except BaseException:
            self.machine.close()
            raise
        self.action_space, self.observation_space = self._actions.space, self._observer.space
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": self.machine.frames_per_s / frame_skip}
        self._settings = self._tell_settings(frame_skip, screen, observe)
        self._is_begun, self._steps, self._held = False, 0, 0

    def _choose_infos(self, info: Sequence[str]) -> None:
        for tally, key in ((self._rewards, "rewards"), (self._ends, "ends"), (self._truncates, "truncates")):
            check_names(key, sorted(tally.fields), self._observer.ram)
            tally.check(self._observer.ram)
        check_names("info", info, {**self._observer.ram, **{REWARD + name: None for name in self._rewards.names}})
        self._told_fields = [name for name in info if not name.startswith(REWARD)]
        self._told_rewards = [
            (name, self._rewards.names.index(name[len(REWARD) :])) for name in info if name.startswith(REWARD)
        ]

    @property
    def ram(self) -> Ram:
        """Every field of the memory map, as it was after the last step."""
        return self._observer.ram

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; ``options={"state": 2}`` chooses the third of several states."""
        super().reset(seed=seed)
        self.machine.load(self.starts.choose(self.np_random, (options or {}).get("state")))
        self._observer.begin()
        for tally in (self._rewards, self._ends, self._truncates):
            tally.reset()
        self._is_begun, self._steps, self._held = True, 0, 0
        return self._observer.observation(), {name: self.ram[name] for name in self._told_fields}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Hold the buttons of the action for ``frame_skip`` frames."""
        if not self._is_begun:
            raise UsageError("step() before reset(): no episode has begun")
        pad = self._actions.pad(action)
        if self._sticky and self.np_random.random() < self._sticky:
            pad = self._held
        self._held = pad
        before, after = self._observer.step(pad)
        self._steps += 1
        given = self._rewards.values(before, after)
        terminated = self._ends.any(before, after)
        truncated = self._truncates.any(before, after) or self._steps == self._max_steps
        return self._observer.observation(), float(sum(given)), terminated, truncated, self._told(after, given)

    def _told(self, ram: Ram, given: Sequence[Any]) -> dict[str, Any]:
        if not self._told_fields and not self._told_rewards:
            return {}
        rewards = {name: float(given[place]) for name, place in self._told_rewards}
        return {**{name: ram[name] for name in self._told_fields}, **rewards}

    def render(self) -> Image | None:
        """The whole picture in colour."""
        return None if self.render_mode is None else rgb_of(self.machine.picture())

    def close(self) -> None:
        """Unload the game."""
        self.machine.close()

    # ---- snapshots --------------------------------------------------------------------------------------------------

    def save_state(self) -> bytes:
        """Everything that decides what comes next, and nothing is changed by asking."""
        return self.snapshot().to_bytes()

    def snapshot(self) -> Snapshot:
        """The same, in parts."""
        wrapper = {
            "settings": self._settings,
            "is_begun": self._is_begun,
            "steps": self._steps,
            "held": self._held,
            "stack": self._observer.save(),
            "rewards": self._rewards.save(),
            "ends": self._ends.save(),
            "truncates": self._truncates.save(),
            "seed": self._np_random_seed,
        }
        return Snapshot(self.machine.identity, self.machine.save(), wrapper, generator_state(self.np_random))

    def load_state(self, state: bytes) -> None:
        """Be exactly there; also before the first reset.

        Raises:
            CheckpointError: damaged, newer, of another game or core, or of an environment with other settings.
        """
        snapshot = Snapshot.from_bytes(state, self.machine.identity)
        self._check_wrapper(snapshot.wrapper)
        try:
            self._take(snapshot)
        except EmulatorError as error:
            raise CheckpointError(f"the snapshot cannot be loaded: {error}") from error
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise CheckpointError(f"the snapshot's environment makes no sense: {error!r}; save it again") from error

    def _check_wrapper(self, wrapper: Mapping[str, Any]) -> None:
        if not wrapper:
            raise CheckpointError(
                "the snapshot holds a machine but no environment; use it as state=, to begin episodes"
            )
        theirs = wrapper.get("settings")
        if not isinstance(theirs, dict):
            raise CheckpointError("the snapshot's environment makes no sense; save it again")
        for key, value in self._settings.items():
            if theirs.get(key) != value:
                raise CheckpointError(
                    f"the snapshot was saved by an environment with {key}={theirs.get(key)!r}, this one has {value!r}; "
                    "make it with the same settings"
                )
        if not self._observer.fits(wrapper.get("stack")):
            raise CheckpointError("the snapshot's environment makes no sense; save it again")

    def _take(self, snapshot: Snapshot) -> None:
        wrapper = snapshot.wrapper
        generator = generator_of(snapshot.rng)
        self._is_begun = False  # until all of it is loaded
        for name, tally in (("rewards", self._rewards), ("ends", self._ends), ("truncates", self._truncates)):
            tally.load(wrapper[name])
        self.machine.load(snapshot.machine)
        self._observer.load(wrapper["stack"])
        self.np_random, self._np_random_seed = generator, wrapper["seed"]
        self._steps, self._held = int(wrapper["steps"]), int(wrapper["held"])
        self._is_begun = bool(wrapper["is_begun"])

    def _tell_settings(self, frame_skip: int, screen: Screen | None, observe: Sequence[str]) -> dict[str, Any]:
        """What must be the same where a state is loaded, as it comes back from a file."""
        return {
            "frame_skip": frame_skip,
            "actions": list(self._actions.names),
            "sticky": self._sticky,
            "max_steps": self._max_steps,
            "screen": screen and {key: _listed(value) for key, value in dataclasses.asdict(screen).items()},
            "observe": list(observe),
            "memory": list(self._observer.ram),
            "rewards": self._rewards.names,
            "ends": self._ends.names,
            "truncates": self._truncates.names,
        }


def check_own(game: str, settings: Mapping[str, Any], own: Sequence[str]) -> None:
    """Refuse settings of an environment that a game decides itself.

    Raises:
        ConfigError: naming the setting.
    """
    for key in own:
        if key in settings:
            raise ConfigError(
                f"{key}={settings[key]!r}: {game} has its own ({', '.join(own)}); make an EmulatorEnv of the ROM to "
                "choose all of it"
            )


def _map_of(memory: MemoryMap | Mapping[str, Any] | str | Path | None) -> MemoryMap | None:
    if memory is None:
        return None
    return MemoryMap.of(here(memory) if isinstance(memory, str | Path) else memory)


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _check_files(rom: Any, core: Any, state: Any) -> None:
    if not isinstance(rom, str | Path):
        raise ConfigError(f"rom={rom!r} must be the name of a file")
    if not isinstance(core, str | Path | None):
        raise ConfigError(f"core={core!r} must be the name or the file of an emulator, or None for the best found")
    states = state if isinstance(state, tuple | list) else () if state is None else (state,)
    if not all(isinstance(one, str | Path) for one in states):
        raise ConfigError(f"state={state!r} must be the name of a file, or a list of them")


def _check(
    frame_skip: int, sticky: float, max_steps: int | None, screen: Screen | None, render_mode: str | None
) -> None:
    if type(frame_skip) is not int or not 1 <= frame_skip <= 1000:
        raise ConfigError(f"frame_skip={frame_skip!r} must be a whole number from 1 to 1000")
    if screen is not None and screen.max_of_two and frame_skip < 2:
        raise ConfigError("screen: max_of_two needs two frames in a step: frame_skip of at least 2")
    if isinstance(sticky, bool) or not isinstance(sticky, int | float | np.floating) or not 0 <= sticky < 1:
        raise ConfigError(f"sticky={sticky!r} must be a probability below 1")
    if max_steps is not None and (type(max_steps) is not int or max_steps < 1):
        raise ConfigError(f"max_steps={max_steps!r} must be a whole number above zero, or None")
    if render_mode not in (None, "rgb_array"):
        raise ConfigError(f"render_mode={render_mode!r} is not known; allowed: 'rgb_array', None")
