"""EmulatorEnv: an emulated game as a Gymnasium environment that can be saved and restored bit for bit.

Combines a machine, named actions, a screen, named memory and reward terms; knows nothing about any particular game.
Files are opened read-only, and what a cartridge saves stays in the slot's scratch directory.
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
from ninelives.sims.emulators.generators import generator_of, generator_state
from ninelives.sims.emulators.machine import Machine
from ninelives.sims.emulators.memory_map import MemoryMap, Ram
from ninelives.sims.emulators.observer import Observer, check_names
from ninelives.sims.emulators.rewards import AnyTerm
from ninelives.sims.emulators.screen import AnyScreen, Image, Screen, rgb_of, screen_of
from ninelives.sims.emulators.snapshot import Snapshot
from ninelives.sims.emulators.starts import Boot, Starts
from ninelives.sims.emulators.term_scorer import TermScorer
from ninelives.sims.emulators.user_paths import user_path

REWARD = "reward/"
"""Prefix of the info key that reports the value of one reward term."""


class EmulatorEnv(gymnasium.Env[Any, Any]):
    """One game in one machine.

    Args:
        rom: the ROM file, relative to the directory the program was started in. Never written to.
        core: name or file of an emulator; by default the best one installed for the system.
        system: ``gba``, ``gb``, ``nes``, ...; by default detected from the ROM.
        state: a file made by ``ninelives state save``, or several; every episode starts from one of them.
        frame_skip: frames per step. The buttons are held in all of them, and the last one is observed.
        actions: button combinations by name, like ``("noop", "right+a")``; or ``"buttons"``: each button separately.
        sticky: probability that a step repeats the buttons of the previous step.
        screen: how the picture is observed: a ``Screen``, or its fields by name; None: not at all.
        memory: the game's variables: a ``MemoryMap``, a mapping or a file.
        observe: variables that are part of the observation.
        info: variables, and ``reward/NAME`` for terms of ``rewards``, that are reported in infos.
        rewards: terms that add up to the reward.
        ends: terms; the episode terminates when any of them is not zero.
        truncates: terms; the episode is truncated when any of them is not zero.
        max_steps: truncate the episode after this many steps.
        boot: actions and their frames, from power-on to where episodes start; only without ``state``.
        render_mode: ``"rgb_array"`` or None.

    Attributes:
        machine: the emulator.
        starts: the states that episodes start from.
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
            raise ConfigError("state and boot: give only one of them; a state replaces the boot script")
        self.render_mode, self._sticky, self._max_steps = render_mode, sticky, max_steps
        self._rewards, self._ends = TermScorer("rewards", rewards), TermScorer("ends", ends)
        self._truncates = TermScorer("truncates", truncates)
        states = [user_path(path) for path in ([state] if isinstance(state, str | Path) else state or ())]
        memory_map = _map_of(memory)
        drawn_every = 1 if screen is not None and screen.max_of_two else frame_skip
        self.machine: Machine = open_emulator(user_path(rom), frame_skip=drawn_every, core=core, system=system)
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
        self._settings = self._snapshot_settings(frame_skip, screen, observe)
        self._is_begun, self._steps, self._held = False, 0, 0

    def _choose_infos(self, info: Sequence[str]) -> None:
        for scorer, key in ((self._rewards, "rewards"), (self._ends, "ends"), (self._truncates, "truncates")):
            check_names(key, sorted(scorer.fields), self._observer.ram)
            scorer.check(self._observer.ram)
        check_names("info", info, {**self._observer.ram, **{REWARD + name: None for name in self._rewards.names}})
        self._info_fields = [name for name in info if not name.startswith(REWARD)]
        self._info_rewards = [
            (name, self._rewards.names.index(name[len(REWARD) :])) for name in info if name.startswith(REWARD)
        ]

    @property
    def ram(self) -> Ram:
        """Every field of the memory map, as it was after the last step."""
        return self._observer.ram

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode; ``options={"state": 2}`` chooses the third of several states."""
        super().reset(seed=seed)
        self.machine.load(self.starts.choose(self.np_random, (options or {}).get("state")))
        self._observer.begin()
        for scorer in (self._rewards, self._ends, self._truncates):
            scorer.reset()
        self._is_begun, self._steps, self._held = True, 0, 0
        return self._observer.observation(), {name: self.ram[name] for name in self._info_fields}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Hold the buttons of the action for ``frame_skip`` frames."""
        if not self._is_begun:
            raise UsageError("step() before reset(): call reset() to start an episode")
        pad = self._actions.pad(action)
        if self._sticky and self.np_random.random() < self._sticky:
            pad = self._held
        self._held = pad
        before, after = self._observer.step(pad)
        self._steps += 1
        given = self._rewards.values(before, after)
        terminated = self._ends.any(before, after)
        truncated = self._truncates.any(before, after) or self._steps == self._max_steps
        return self._observer.observation(), float(sum(given)), terminated, truncated, self._infos(after, given)

    def _infos(self, ram: Ram, given: Sequence[Any]) -> dict[str, Any]:
        if not self._info_fields and not self._info_rewards:
            return {}
        rewards = {name: float(given[index]) for name, index in self._info_rewards}
        return {**{name: ram[name] for name in self._info_fields}, **rewards}

    def render(self) -> Image | None:
        """The whole picture in colour, not cropped or resized."""
        return None if self.render_mode is None else rgb_of(self.machine.picture())

    def close(self) -> None:
        """Unload the game."""
        self.machine.close()

    # ---- snapshots --------------------------------------------------------------------------------------------------

    def save_state(self) -> bytes:
        """The environment's complete state as bytes. Saving does not change the environment."""
        return self.snapshot().to_bytes()

    def snapshot(self) -> Snapshot:
        """The same state as an object."""
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
        """Restore a saved state exactly; also allowed before the first reset.

        Raises:
            CheckpointError: the snapshot is damaged, from a newer version, or from another game, core or settings.
        """
        snapshot = Snapshot.from_bytes(state, self.machine.identity)
        self._check_wrapper(snapshot.wrapper)
        try:
            self._restore(snapshot)
        except EmulatorError as error:
            raise CheckpointError(f"the snapshot cannot be loaded: {error}") from error
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise CheckpointError(f"the snapshot's environment part is invalid: {error!r}; save it again") from error

    def _check_wrapper(self, wrapper: Mapping[str, Any]) -> None:
        if not wrapper:
            raise CheckpointError(
                "the snapshot contains a machine but no environment; use it as state=, to start episodes from"
            )
        theirs = wrapper.get("settings")
        if not isinstance(theirs, dict):
            raise CheckpointError("the snapshot's environment part is invalid: it has no settings; save it again")
        for key, value in self._settings.items():
            if theirs.get(key) != value:
                raise CheckpointError(
                    f"the snapshot was saved by an environment with {key}={theirs.get(key)!r}, this one has {value!r}; "
                    "make it with the same settings"
                )
        if not self._observer.fits(wrapper.get("stack")):
            raise CheckpointError("the snapshot's environment part is invalid: its stack does not fit; save it again")

    def _restore(self, snapshot: Snapshot) -> None:
        wrapper = snapshot.wrapper
        generator = generator_of(snapshot.rng)
        self._is_begun = False  # until everything is loaded
        for name, scorer in (("rewards", self._rewards), ("ends", self._ends), ("truncates", self._truncates)):
            scorer.load(wrapper[name])
        self.machine.load(snapshot.machine)
        self._observer.load(wrapper["stack"])
        self.np_random, self._np_random_seed = generator, wrapper["seed"]
        self._steps, self._held = int(wrapper["steps"]), int(wrapper["held"])
        self._is_begun = bool(wrapper["is_begun"])

    def _snapshot_settings(self, frame_skip: int, screen: Screen | None, observe: Sequence[str]) -> dict[str, Any]:
        """The settings that must match when a snapshot is loaded, in the form they have after reading a file."""
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
    """Reject settings that a game fixes itself.

    Raises:
        ConfigError: with the name of the setting.
    """
    for key in own:
        if key in settings:
            raise ConfigError(
                f"{key}={settings[key]!r}: {game} sets this itself ({', '.join(own)}); create an EmulatorEnv with the "
                "ROM to choose every setting"
            )


def _map_of(memory: MemoryMap | Mapping[str, Any] | str | Path | None) -> MemoryMap | None:
    if memory is None:
        return None
    return MemoryMap.of(user_path(memory) if isinstance(memory, str | Path) else memory)


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _check_files(rom: Any, core: Any, state: Any) -> None:
    if not isinstance(rom, str | Path):
        raise ConfigError(f"rom={rom!r} must be a file name")
    if not isinstance(core, str | Path | None):
        raise ConfigError(f"core={core!r} must be the name or file of an emulator, or None for the best one installed")
    states = state if isinstance(state, tuple | list) else () if state is None else (state,)
    if not all(isinstance(one, str | Path) for one in states):
        raise ConfigError(f"state={state!r} must be a file name, or a list of file names")


def _check(
    frame_skip: int, sticky: float, max_steps: int | None, screen: Screen | None, render_mode: str | None
) -> None:
    if type(frame_skip) is not int or not 1 <= frame_skip <= 1000:
        raise ConfigError(f"frame_skip={frame_skip!r} must be a whole number from 1 to 1000")
    if screen is not None and screen.max_of_two and frame_skip < 2:
        raise ConfigError("screen: max_of_two needs at least two frames per step: use frame_skip of at least 2")
    if isinstance(sticky, bool) or not isinstance(sticky, int | float | np.floating) or not 0 <= sticky < 1:
        raise ConfigError(f"sticky={sticky!r} must be a probability below 1")
    if max_steps is not None and (type(max_steps) is not int or max_steps < 1):
        raise ConfigError(f"max_steps={max_steps!r} must be a whole number above zero, or None")
    if render_mode not in (None, "rgb_array"):
        raise ConfigError(f"render_mode={render_mode!r} is not known; allowed: 'rgb_array', None")
