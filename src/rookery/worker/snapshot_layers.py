"""The layers of an environment whose state can be taken and put back: one class for each way of doing it.

A layer gives a plain value that pickle can carry, and takes it back exactly. It never decides whether a stack may be
saved: ``snapshots`` does. Nothing here knows of processes, slots or files.
"""

from __future__ import annotations

import re
import time
from collections import deque
from typing import Any, Protocol

import numpy as np

_CLOCK = "episode_start_time"
"""Of RecordEpisodeStatistics: a reading of this machine's clock; what is saved is the time since."""

_RECENT_ACTS = 1024
"""How far back the action of a sticky frame may lie; at a probability of 0.95 none is older in 10**22 frames."""

_GENERATOR = re.compile(rb"\d+(?: \d+){624}")
"""A Mersenne Twister as C++ writes it: 624 words and a position."""

_NOTHING_HELD = (0, 1.0)
"""The action that is held after a reset: none, at full strength."""

_WARM_FRAMES = 2
"""The emulator draws into two buffers in turn, and a frame may leave pixels of the one before it."""


class Layer(Protocol):
    """One layer of a stack."""

    identity: str
    """What must be the same where the state is loaded."""

    def begin(self) -> None:
        """Get ready to save; called once, before the first save or load."""

    def save(self) -> Any:
        """The layer's state."""

    def load(self, state: Any) -> None:
        """Put back what ``save`` gave."""


class OwnState:
    """A layer that saves itself and everything below it."""

    def __init__(self, layer: Any) -> None:
        self.identity = class_name(layer)
        self._layer = layer

    def begin(self) -> None:
        """Nothing to prepare."""

    def save(self) -> bytes:
        """What ``save_state`` gives."""
        state = self._layer.save_state()
        if not isinstance(state, bytes):
            raise TypeError(f"{self.identity}.save_state() must return bytes, got {type(state).__name__}")
        return state

    def load(self, state: bytes) -> None:
        """Hand it to ``load_state``."""
        self._layer.load_state(state)


class Attributes:
    """A wrapper of Gymnasium whose state lies in known attributes."""

    def __init__(self, layer: Any, names: tuple[str, ...]) -> None:
        # A stack of four frames is another stack than one of two.
        self.identity = f"{class_name(layer)} {getattr(layer, '_saved_kwargs', {})!r}"
        self._layer, self._names = layer, names

    def begin(self) -> None:
        """Nothing to prepare."""

    def save(self) -> dict[str, Any]:
        """The attributes' values; the caller's pickle makes the copies."""
        state = {name: getattr(self._layer, name) for name in self._names}
        if state.get(_CLOCK, -1) != -1:
            state[_CLOCK] = time.perf_counter() - state[_CLOCK]
        return state

    def load(self, state: dict[str, Any]) -> None:
        """Set the attributes."""
        for name in self._names:
            is_running_clock = name == _CLOCK and state[name] != -1
            setattr(self._layer, name, time.perf_counter() - state[name] if is_running_clock else state[name])


class Atari:
    """``ale_py.AtariEnv``: the emulator's own state, the action it holds, and the generator of random frame skips.

    What ALE clones lacks the action that a sticky frame would repeat, and what the screen shows. So an ``ActWatch``
    finds out the first, and a load draws a few frames with that action before the state is put in for good.
    """

    def __init__(self, env: Any) -> None:
        settings = {key: getattr(env, key) for key in ("_game", "_game_mode", "_game_difficulty", "_frameskip")}
        self._repeat = repeat_probability(env)
        self.identity = f"{class_name(env)} {settings!r} repeat_action_probability={self._repeat}"
        self._env = env

    def begin(self) -> None:
        """From now on know the held action."""
        if self._repeat and not isinstance(self._env.ale, ActWatch):
            self._env.ale = ActWatch(self._env.ale)

    def save(self) -> dict[str, Any]:
        """The emulator with its generator, the held action, and the environment's own generator."""
        ale = self._env.ale
        state = ale.cloneState(include_rng=True)
        held = ale.held(state) if self._repeat else _NOTHING_HELD
        return {"ale": state, "held": held, "np": (self._env._np_random, self._env._np_random_seed)}

    def load(self, state: dict[str, Any]) -> None:
        """Bring the emulator to where it was."""
        self._env._np_random, self._env._np_random_seed = state["np"]
        if self._repeat:
            self._env.ale.hold(state["held"], state["ale"])
        else:
            _draw(self._env.ale, state["ale"], state["held"], _WARM_FRAMES)


class ActWatch:
    """Stands before an ``ALEInterface`` and knows which action a sticky frame would repeat.

    The emulator repeats its last action by the draws of its generator and tells nobody. But the generator is in every
    clone: drawing from the last known one as often as the emulator did shows which of the acts since were taken.
    """

    def __init__(self, ale: Any) -> None:
        self._ale = ale
        self._repeat = ale.getFloat("repeat_action_probability")
        self._recent: deque[tuple[Any, ...]] = deque(maxlen=_RECENT_ACTS)
        self._anchor(None if ale.getEpisodeFrameNumber() else _NOTHING_HELD)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ale, name)

    def act(self, *how: Any) -> Any:
        """One frame."""
        self._recent.append(how)
        self._acts += 1
        return self._ale.act(*how)

    def reset_game(self) -> None:
        """Begin an episode: no action is held."""
        self._ale.reset_game()
        self._anchor(_NOTHING_HELD)

    def loadROM(self, *rom: Any) -> None:
        """Insert the game: no action is held, and the generator is seeded."""
        self._ale.loadROM(*rom)
        self._anchor(_NOTHING_HELD)

    def restoreState(self, state: Any) -> None:
        """A clone put back by somebody else leaves the held action as it is."""
        held = self._find_held(self._ale.cloneState(include_rng=True))
        self._ale.restoreState(state)
        self._anchor(held)

    restoreSystemState = restoreState

    def held(self, state: Any) -> tuple[int, float]:
        """The action, and its strength, that the next sticky frame would repeat; ``state`` is a clone taken now."""
        held = self._find_held(state)
        if held is None:
            raise ValueError("the emulator was stepped before anybody watched it; reset the environment, then save")
        self._anchor(held, state)
        return held

    def hold(self, held: tuple[int, float], state: Any) -> None:
        """Make the emulator be in ``state`` with ``held`` held."""
        sticky = self._are_sticky(generator_in(state), _RECENT_ACTS)
        _draw(self._ale, state, held, max(int(np.argmin(sticky)) + 1, _WARM_FRAMES))
        self._anchor(held, state)

    def _anchor(self, held: tuple[int, float] | None, state: Any = None) -> None:
        self._held = held
        self._generator = generator_in(state or self._ale.cloneState(include_rng=True))
        self._acts = 0
        self._recent.clear()

    def _find_held(self, state: Any) -> tuple[int, float] | None:
        generator = np.random.MT19937()
        generator.state = self._generator.state
        taken = np.flatnonzero(~self._are_sticky(generator, self._acts))
        if not _same(generator, generator_in(state)):
            raise ValueError("the emulator made other draws than its acts explain; it cannot be saved exactly")
        if not taken.size:
            return self._held
        action, *strength = self._recent[int(taken[-1]) - self._acts]
        return int(getattr(action, "value", action)), float(*strength or [1.0])

    def _are_sticky(self, generator: np.random.MT19937, acts: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
        # Two draws a frame: the second is for a second player, who is never there.
        draws = np.asarray(generator.random_raw(2 * acts))[::2]
        return np.less(draws / 2.0**32, self._repeat)


def _draw(ale: Any, state: Any, held: tuple[int, float], frames: int) -> None:
    """Let some frames be drawn after ``state``, then go back to it."""
    ale.restoreState(state)
    for _ in range(frames):
        ale.act(*held)
    ale.restoreState(state)


def generator_in(state: Any) -> np.random.MT19937:
    """The generator of sticky frames in an emulator's clone."""
    written = state.serialize()
    found = list(_GENERATOR.finditer(written))
    if not found:
        raise ValueError("no generator is in the emulator's state; this ale_py writes it in another way")
    start = found[-1].start()  # the one before it belongs to the console
    length = int.from_bytes(written[start - 4 : start], "little")
    *key, position = map(int, written[start : start + length].split())
    generator = np.random.MT19937()
    generator.state = {"bit_generator": "MT19937", "state": {"key": np.array(key, np.uint32), "pos": position}}
    return generator


def _same(one: np.random.MT19937, other: np.random.MT19937) -> bool:
    return bool(np.array_equal(one.random_raw(8), other.random_raw(8)))


def repeat_probability(env: Any) -> float:
    """How likely a frame of this Atari game repeats the action before it."""
    return float(env.ale.getFloat("repeat_action_probability"))


def class_name(layer: Any) -> str:
    """The class's full name."""
    return f"{type(layer).__module__}.{type(layer).__qualname__}"
