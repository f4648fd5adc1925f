"""Games of ``nes_py`` and of packages built on it (``gym-super-mario-bros``), if you have them installed.

Owns two things: the repair, which makes these packages run on NumPy 2 and bounds their endless loops, and
``NesPyEnv``, which gives their games Gymnasium's interface. Ships no game and downloads none.

What is repaired, in memory and once per process:

* A ROM's header and single bytes of RAM are Python ints. ``uint8 * 256`` is an OverflowError on NumPy 2.
* RAM stays a live view. A copy would never change, and the loops that wait for a byte to change would never end.
* These loops (``while self._time == 0``) end with an error after one minute of game time.

``nes_py`` cannot save its state, so a slot is healed by replay. ``EmulatorEnv`` with a libretro core has snapshots and
is several times faster.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from ninelives.errors import ClosedError, ConfigError, EmulatorError, UsageError
from ninelives.sims.emulators.user_paths import user_path

INSTALL = "pip install nes-py (it needs g++)"
BUTTONS = ("a", "b", "select", "start", "up", "down", "left", "right")
"""Buttons in the order of the emulator's own bits."""

MAX_SKIPPED_FRAMES = 3600
"""Frames a game may skip by itself within one reset or step; one minute of game time."""

Screen = npt.NDArray[np.uint8]


class NesPyEnv(gymnasium.Env[Screen, Any]):
    """A game of ``nes_py`` with Gymnasium's interface."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 60}  # noqa: RUF012 (Gymnasium's own type)

    def __init__(
        self,
        game: str | Callable[..., Any] = "nes_py:NESEnv",
        *,
        actions: Sequence[str] | None = None,
        frame_skip: int = 1,
        render_mode: str | None = "rgb_array",
        max_skipped_frames: int = MAX_SKIPPED_FRAMES,
        **kwargs: Any,
    ) -> None:
        """Build the game.

        Args:
            game: an id like ``SuperMarioBros-1-1-v0``, a class as ``"module:name"``, or a callable that builds one.
            actions: button combinations like ``"right+a"`` or ``"noop"``; None: the game's own actions.
            frame_skip: game steps per step of this environment; rewards are summed, and the end of an episode stops it.
            render_mode: ``rgb_array`` or None.
            max_skipped_frames: frames the game may skip by itself within one reset or step.
            **kwargs: for the game's class; ``rom_path`` is relative to the directory the program was started in.
        """
        _check(actions, frame_skip, render_mode, max_skipped_frames)
        repair()
        self._bits = None if actions is None else [_bits_of(action) for action in actions]
        if kwargs.get("rom_path") is not None:
            kwargs["rom_path"] = _rom_file(kwargs["rom_path"])
        self._game: Any = _built(_builder(game), kwargs, max_skipped_frames)
        self._frame_skip = frame_skip
        self.render_mode = render_mode
        self.observation_space = _modern(self._game.observation_space)
        choices = int(self._game.action_space.n) if self._bits is None else len(self._bits)
        self.action_space: gymnasium.spaces.Discrete[Any] = gymnasium.spaces.Discrete(choices)

    @property
    def ram(self) -> npt.NDArray[np.uint8]:
        """A live view of the console's 2 kB of RAM; single bytes are Python ints."""
        return self._open().unwrapped.ram  # type: ignore[no-any-return]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Screen, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        game = self._open()
        if seed is not None:
            game.unwrapped.seed(seed % 2**32)  # the range that its generator accepts
        answer = game.reset()
        screen, info = answer if isinstance(answer, tuple) else (answer, {})
        return np.array(screen), info

    def step(self, action: Any) -> tuple[Screen, float, bool, bool, dict[str, Any]]:
        """Hold the buttons of an action for ``frame_skip`` game steps."""
        game, total = self._open(), 0.0
        if not self.action_space.contains(action):
            raise UsageError(f"action {action!r} must be a whole number from 0 to {self.action_space.n - 1}")
        button_bits = int(action) if self._bits is None else self._bits[int(action)]
        for _ in range(self._frame_skip):
            screen, reward, *flags, info = game.step(button_bits)
            total += float(reward)
            if any(flags):
                break
        return np.array(screen), total, bool(flags[0]), any(map(bool, flags[1:])), info

    def render(self) -> Any:
        """The screen."""
        return None if self.render_mode is None else np.array(self._open().unwrapped.screen)

    def close(self) -> None:
        """Close the game. Its arrays of memory and picture now point to freed memory, so they are removed too."""
        game, self._game = self._game, None
        if game is None:
            return
        machine = game.unwrapped
        game.close()
        for name in ("ram", "screen", "controllers"):
            if name in vars(machine):
                setattr(machine, name, None)

    def _open(self) -> Any:
        if self._game is None:
            raise ClosedError("this game was closed; make a new one")
        return self._game


class RamView(np.ndarray[Any, np.dtype[np.uint8]]):
    """RAM whose single bytes are Python ints; still a view of the console's own memory."""

    def __getitem__(self, index: Any) -> Any:
        value = super().__getitem__(index)
        return int(value) if isinstance(value, np.uint8) else value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())


def repair() -> None:
    """Import ``nes_py`` and repair it; harmless when repeated.

    Raises:
        EmulatorError: it is not installed.
    """
    env_class, rom_class = _classes()
    if getattr(env_class, "is_repaired", False):
        return
    env_class.is_repaired, env_class.max_skipped_frames = True, MAX_SKIPPED_FRAMES
    rom_class.header = property(lambda self: self.raw_data[:16].astype(int))
    ram_buffer = env_class._ram_buffer
    env_class._ram_buffer = lambda self: ram_buffer(self).view(RamView)
    env_class.reset, env_class.step = _with_fresh_count(env_class.reset), _with_fresh_count(env_class.step)
    env_class._frame_advance = _bounded(env_class._frame_advance)


def _classes() -> tuple[Any, Any]:
    notice = io.StringIO()  # gym prints a deprecation notice to standard error on every import
    try:
        with contextlib.redirect_stderr(notice):
            env_module, rom_module = importlib.import_module("nes_py.nes_env"), importlib.import_module("nes_py._rom")
    except (ImportError, OSError) as error:
        raise EmulatorError(f"nes_py cannot be imported ({error}); install it: {INSTALL}") from error
    return env_module.NESEnv, rom_module.ROM


def _with_fresh_count(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a reset or step so that the count of skipped frames starts again at zero."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.skipped_frames = 0
        return method(self, *args, **kwargs)

    return call


def _bounded(frame_advance: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the frame that a game runs by itself to skip a screen: it is counted, and an error after too many."""

    @functools.wraps(frame_advance)
    def call(self: Any, action: int) -> Any:
        self.skipped_frames = getattr(self, "skipped_frames", 0) + 1
        if self.skipped_frames > self.max_skipped_frames:
            raise EmulatorError(_endless(self, sys._getframe(1)))
        return frame_advance(self, action)

    return call


def _endless(env: Any, loop: FrameType) -> str:
    name = f"{type(env).__name__}.{loop.f_code.co_name}"
    place = f"{os.path.basename(loop.f_code.co_filename)}:{loop.f_lineno}"
    return (
        f"{name} ({place}) skipped {env.max_skipped_frames} frames and is still waiting for a value that does not "
        f"change. Most likely the ROM is not the one it expects, or env.ram was replaced by a copy, which never "
        f"changes. If it only needs more time, raise max_skipped_frames"
    )


def _built(build: Callable[..., Any], kwargs: Mapping[str, Any], max_skipped_frames: int) -> Any:
    """Build a game with its own frame limit. The instance does not exist during construction, so the class holds it."""
    env_class, _ = _classes()
    env_class.max_skipped_frames = max_skipped_frames
    try:
        game = build(**kwargs)
    finally:
        env_class.max_skipped_frames = MAX_SKIPPED_FRAMES
    vars(game.unwrapped).setdefault("max_skipped_frames", max_skipped_frames)
    return game


def _check(actions: Any, frame_skip: Any, render_mode: Any, max_skipped_frames: Any) -> None:
    for key, value in (("frame_skip", frame_skip), ("max_skipped_frames", max_skipped_frames)):
        if type(value) is not int or value < 1:
            raise ConfigError(f"{key}={value!r} must be a whole number of at least 1")
    is_list = isinstance(actions, tuple | list) and actions and all(isinstance(action, str) for action in actions)
    if actions is not None and not is_list:
        raise ConfigError(f"actions={actions!r} must be a list of names like ('noop', 'right+a'), or None")
    if render_mode not in (None, "rgb_array"):
        raise ConfigError(f"render_mode={render_mode!r} is not known; allowed: 'rgb_array', None")


def _rom_file(rom_path: Any) -> str:
    if not isinstance(rom_path, str | Path):
        raise ConfigError(f"rom_path={rom_path!r} must be a file name")
    return str(user_path(rom_path))


def _bits_of(action: str) -> int:
    """The emulator's bit mask for a combination of buttons."""
    names = [] if action.lower() == "noop" else action.lower().split("+")
    unknown = [name for name in names if name not in BUTTONS]
    if unknown:
        raise ConfigError(f"actions: {action!r}: no button {unknown[0]!r}; allowed: noop, {', '.join(BUTTONS)}")
    return sum(1 << BUTTONS.index(name) for name in set(names))


def _builder(game: str | Callable[..., Any]) -> Callable[..., Any]:
    if callable(game):
        return game
    if ":" in game:
        module, _, name = game.partition(":")
        return getattr(importlib.import_module(module), name)  # type: ignore[no-any-return]
    return _registered(game)


def _registered(game: str) -> Callable[..., Any]:
    """The entry point of a registered id, without the wrappers of ``gym.make``, which do not run on NumPy 2."""
    registration: Any = importlib.import_module("gym.envs.registration")
    if "Mario" in game:
        _import_mario(game)
    if game not in registration.registry:
        raise ConfigError(
            f"game={game!r} is not registered with gym; import the package that registers it, or give module:name"
        )
    spec = registration.registry[game]
    build = spec.entry_point if callable(spec.entry_point) else registration.load(spec.entry_point)
    return functools.partial(build, **spec.kwargs)


def _import_mario(game: str) -> None:
    try:
        importlib.import_module("gym_super_mario_bros")
    except ImportError as error:
        raise EmulatorError(
            f"game={game!r} needs the package gym-super-mario-bros, which is not installed ({error}). It is not part "
            f"of Ninelives. ninelives/Mario-v0 plays your own ROM without it"
        ) from error


def _modern(space: Any) -> Any:
    """Convert a Box of the old gym package to Gymnasium's."""
    return gymnasium.spaces.Box(space.low, space.high, space.shape, space.dtype.type)
