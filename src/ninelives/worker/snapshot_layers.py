"""The layers of an environment whose state can be taken and put back: one class for each way of doing it.

A layer gives a plain value that pickle can carry, and takes it back exactly. It never decides whether a stack may be
saved: ``snapshots`` does. Nothing here knows of processes, slots or files.
"""

from __future__ import annotations

import ctypes
import re
import time
from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

_CLOCK = "episode_start_time"
"""Of RecordEpisodeStatistics: a reading of this machine's clock; what is saved is the time since."""

_RECENT_ACTS = 1024
"""How far back the action of a sticky frame may lie; at a probability of 0.95 none is older in 10**22 frames."""

_GENERATOR = re.compile(rb"\d+(?: \d+){624}")
"""A Mersenne Twister as C++ writes it: 624 words and a position."""

_TWISTER_WORDS = 624

_GENERATOR_BYTES = 625 * 11 + 64
"""At the end of a clone, enough to hold it and what follows it."""

_WHOLE = slice(24, 28)
"""Where a clone says how long the emulator's own part of it is: after six numbers of ALE's."""

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
        clone = ale.cloneState(include_rng=True).serialize()
        held = ale.held(clone) if self._repeat else _NOTHING_HELD
        return {"ale": clone, "held": held, "np": (_told(self._env._np_random), self._env._np_random_seed)}

    def load(self, state: dict[str, Any]) -> None:
        """Bring the emulator to where it was."""
        generator, self._env._np_random_seed = state["np"]
        self._env._np_random = _made(generator)
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
        self._anchor(None if ale.getEpisodeFrameNumber() else _NOTHING_HELD, self._now())

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
        self._anchor(_NOTHING_HELD, self._now())

    def loadROM(self, *rom: Any) -> None:
        """Insert the game: no action is held, and the generator is seeded."""
        self._ale.loadROM(*rom)
        self._anchor(_NOTHING_HELD, self._now())

    def restoreState(self, state: Any) -> None:
        """A clone put back by somebody else leaves the held action as it is."""
        held = self._find_held(self._now())
        self._ale.restoreState(state)
        self._anchor(held, self._now())

    restoreSystemState = restoreState

    def held(self, clone: bytes) -> tuple[int, float]:
        """The action, and its strength, that the next sticky frame would repeat; ``clone`` was taken now."""
        generator = Generator.in_clone(clone)
        held = self._find_held(generator)
        if held is None:
            raise ValueError("the emulator was stepped before anybody watched it; reset the environment, then save")
        self._anchor(held, generator)
        return held

    def hold(self, held: tuple[int, float], clone: bytes) -> None:
        """Make the emulator be where ``clone`` was taken, with ``held`` held."""
        generator = Generator.in_clone(clone)
        sticky, _ = self._roll(generator, _RECENT_ACTS)
        _draw(self._ale, clone, held, max(int(np.argmin(sticky)) + 1, _WARM_FRAMES))
        self._anchor(held, generator)

    def _anchor(self, held: tuple[int, float] | None, generator: Generator) -> None:
        self._held, self._generator = held, generator
        self._acts = 0
        self._recent.clear()

    def _now(self) -> Generator:
        return Generator.in_clone(self._ale.cloneState(include_rng=True).serialize())

    def _find_held(self, now: Generator) -> tuple[int, float] | None:
        sticky, after = self._roll(self._generator, self._acts)
        if after != now:
            raise ValueError("the emulator made other draws than its acts explain; it cannot be saved exactly")
        taken = np.flatnonzero(~sticky)
        if not taken.size:
            return self._held
        action, *strength = self._recent[int(taken[-1]) - self._acts]
        return int(getattr(action, "value", action)), float(*strength or [1.0])

    def _roll(self, generator: Generator, acts: int) -> tuple[npt.NDArray[np.bool_], Generator]:
        """Which of the next acts are sticky, and the generator after them."""
        # Two draws a frame: the second is for a second player, who is never there.
        draws, after = generator.draw(2 * acts)
        return draws[::2] / 2.0**32 < self._repeat, after


@dataclass(frozen=True)
class Generator:
    """A Mersenne Twister at one moment."""

    key: bytes
    position: int

    @classmethod
    def in_clone(cls, clone: bytes) -> Generator:
        """The generator of sticky frames in an emulator's clone, as ALE writes it down."""
        start, stop = _place_in_clone(clone)
        numbers = np.fromstring(clone[start:stop], np.uint32, sep=" ")
        return cls(numbers[:-1].tobytes(), int(numbers[-1]))

    @classmethod
    def seeded(cls, seed: int) -> Generator:
        """As C++ seeds it with 32 bits."""
        _, key, position, *_ = np.random.RandomState(seed & 0xFFFFFFFF).get_state()
        return cls(np.asarray(key, np.uint32).tobytes(), int(position))

    def put_into(self, clone: bytes) -> bytes:
        """The clone with this generator in place of its own, and the lengths of its text and of the whole set right."""
        start, stop = _place_in_clone(clone)
        text = " ".join(map(str, [*np.frombuffer(self.key, np.uint32).tolist(), self.position])).encode()
        whole = int.from_bytes(clone[_WHOLE], "little") + len(text) - (stop - start)
        if _WHOLE.stop + whole != start + len(text):
            raise ValueError("the generator is not at the end of the emulator's part; this ale_py writes another clone")
        head = clone[: _WHOLE.start] + whole.to_bytes(4, "little") + clone[_WHOLE.stop : start - 4]
        return head + len(text).to_bytes(4, "little") + text + clone[stop:]

    def draw(self, count: int) -> tuple[npt.NDArray[np.uint64], Generator]:
        """The next numbers, and the generator after them."""
        _TWISTER.put(self.key, self.position)
        draws = np.asarray(_TWISTER.bits.random_raw(count))
        return draws, Generator(*_TWISTER.get())


def _place_in_clone(clone: bytes) -> tuple[int, int]:
    """Where the generator of sticky frames is written; the console has one of its own before it."""
    found = _GENERATOR.search(clone, max(len(clone) - _GENERATOR_BYTES, 0))
    if found is None:
        raise ValueError("no generator is in the emulator's state; this ale_py writes it in another way")
    start = found.start()
    return start, start + int.from_bytes(clone[start - 4 : start], "little")


class Twister:
    """NumPy's Mersenne Twister, read and set where it lies: through its ``state`` either takes forty microseconds.

    What lies there is compared with what numpy says before anybody relies on it.
    """

    def __init__(self) -> None:
        self.bits = np.random.MT19937(0)
        place = self.bits.ctypes.state_address
        self._words = (ctypes.c_uint32 * (_TWISTER_WORDS + 1)).from_address(place)
        self._is_known = self._look() == self._ask()

    def get(self) -> tuple[bytes, int]:
        """The words, and the position among them."""
        return self._look() if self._is_known else self._ask()

    def put(self, key: bytes, position: int) -> None:
        """Go on from there."""
        if self._is_known:
            ctypes.memmove(self._words, key, 4 * _TWISTER_WORDS)
            self._words[_TWISTER_WORDS] = position
        else:
            words = np.frombuffer(key, np.uint32)
            self.bits.state = {"bit_generator": "MT19937", "state": {"key": words, "pos": position}}

    def _look(self) -> tuple[bytes, int]:
        return bytes(self._words)[: 4 * _TWISTER_WORDS], int(self._words[_TWISTER_WORDS])

    def _ask(self) -> tuple[bytes, int]:
        said = self.bits.state["state"]
        return said["key"].tobytes(), int(said["pos"])


_TWISTER = Twister()
"""Only ever used from a state that was just put in."""


def _draw(ale: Any, clone: bytes, held: tuple[int, float], frames: int) -> None:
    """Let some frames be drawn after a clone was taken, then go back to it."""
    from ale_py import ALEState  # late: most environments are no Atari games

    state = ALEState(clone)
    if state.getEpisodeFrameNumber() == 0:
        ale.reset_game()  # draws what was drawn there, and leaves nothing held
    else:
        ale.restoreState(state)
        for _ in range(frames):
            ale.act(*held)
    ale.restoreState(state)


def _told(generator: np.random.Generator | None) -> Any:
    """A generator as its state, where it is of Gymnasium's own kind: a tenth of the time that pickle takes for it."""
    bits = None if generator is None else generator.bit_generator
    return bits.state if type(bits) is np.random.PCG64 else generator


def _made(told: Any) -> Any:
    if not isinstance(told, dict):
        return told
    bits = np.random.PCG64()
    bits.state = cast(Any, told)
    return np.random.Generator(bits)


def repeat_probability(env: Any) -> float:
    """How likely a frame of this Atari game repeats the action before it."""
    return float(env.ale.getFloat("repeat_action_probability"))


def class_name(layer: Any) -> str:
    """The class's full name."""
    return f"{type(layer).__module__}.{type(layer).__qualname__}"
