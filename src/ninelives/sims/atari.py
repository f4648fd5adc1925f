"""Atari games of ale_py: exact snapshots, and seeded resets that do not read the ROM again.

Imported by a worker only when it has built an environment of ale_py; imports ale_py only when it is used. Never changes
what a game shows: every shortcut is compared with the emulator's own way first, and refused where it differs.
"""

from __future__ import annotations

from collections import deque
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from ninelives.sims.atari_rng import TwisterState
from ninelives.spec.snapshots import SimulatorSupport, SnapshotLayer, class_name, is_genuine

_ATARI = "ale_py.env.AtariEnv"

_EXACT_GAMES = """
    adventure air_raid alien amidar assault asterix asteroids atlantis atlantis2 backgammon bank_heist basic_math
    battle_zone beam_rider berzerk blackjack bowling boxing breakout carnival casino centipede chopper_command
    crazy_climber crossbow darkchambers defender demon_attack donkey_kong double_dunk earthworld elevator_action
    enduro entombed et fishing_derby flag_capture freeway frogger frostbite galaxian gopher gravitar hangman
    haunted_house hero human_cannonball ice_hockey jamesbond journey_escape kaboom kangaroo keystone_kapers
    king_kong klax koolaid krull kung_fu_master laser_gates lost_luggage mario_bros montezuma_revenge mr_do
    ms_pacman name_this_game othello pacman phoenix pitfall pong pooyan private_eye riverraid road_runner robotank
    seaquest sir_lancelot skiing solaris space_invaders space_war star_gunner superman surround tennis time_pilot
    trondead turmoil tutankham up_n_down venture video_chess video_cube video_pinball wizard_of_wor word_zapper
    zaxxon
"""
"""Games that continued exactly after each of some 270 loads, at any frame, with ale_py 0.12.1.

For the others an emulator's clone lacks something: whether a frame is unfinished (qbert, tetris), what the game counts
(miniature_golf), a part of its clock (pitfall2), or pixels of the next frame (tic_tac_toe_3d, video_checkers,
yars_revenge).
"""

_MOST_STICKY = 0.95
"""Above this probability the held action may be older than the actions that are remembered."""

_RECENT_ACTIONS = 1024
"""How far back the action of a sticky frame may lie; at a probability of 0.95 none is older in 10**22 frames."""

_NOTHING_HELD = (0, 1.0)
"""The action that is held after a reset: none, at full strength."""

_WARM_FRAMES = 2
"""The emulator draws into two buffers in turn, and a frame may leave pixels of the one before it."""

_UNSPECIFIC_SEEDS = (0, -1)
"""Seeds for which the emulator may choose one by the clock."""


class AtariSupport:
    """What a worker asks about an environment of ale_py."""

    def why_not(self, env: Any) -> str:
        """Why this game cannot be saved exactly; empty if it can."""
        name = class_name(env)
        if name != _ATARI or not is_genuine(type(env)):
            return f"{name} has no save_state() and load_state()"
        if env._game not in _EXACT_GAMES.split():
            return f"{name} plays {env._game}, which the emulator does not restore exactly"
        if env.sound_obs:
            return f"{name} observes sound, which is not in the emulator's state"
        if env.ale.getBool("color_averaging"):
            return f"{name} blends frames, which are not in the emulator's state"
        if _repeat_probability(env) > _MOST_STICKY:
            return f"{name} repeats actions with a probability above {_MOST_STICKY}"
        return ""

    def layer(self, env: Any) -> SnapshotLayer:
        """The game's layer in a snapshot."""
        return AtariLayer(env)

    def prepare(self, env: Any) -> None:
        """Let a game that can be restored exactly read its ROM only once, however often it is reset with a seed."""
        if not self.why_not(env):
            env.ale = CachedLoads(env.ale, _just_loaded(env))


SUPPORT: SimulatorSupport = AtariSupport()


def _repeat_probability(env: Any) -> float:
    """How likely a frame of this game repeats the action before it."""
    return float(env.ale.getFloat("repeat_action_probability"))


# ---- snapshots ------------------------------------------------------------------------------------------------------


class AtariLayer:
    """``ale_py.AtariEnv``: the emulator's own state, the action it holds, and the generator of random frame skips.

    ALE's clone lacks the action that a sticky frame would repeat, and what the screen shows. An ``ActionTracker`` finds
    out the first; for the second a load lets a few frames be drawn with that action before it puts the state in.
    """

    def __init__(self, env: Any) -> None:
        settings = {key: getattr(env, key) for key in ("_game", "_game_mode", "_game_difficulty", "_frameskip")}
        self._repeat = _repeat_probability(env)
        self.identity = f"{class_name(env)} {settings!r} repeat_action_probability={self._repeat}"
        self._env = env

    def begin(self) -> None:
        """Track the held action from now on."""
        if self._repeat and not isinstance(self._env.ale, ActionTracker):
            self._env.ale = ActionTracker(self._env.ale)

    def save(self) -> dict[str, Any]:
        """The emulator with its generator, the held action, and the environment's own generator."""
        ale = self._env.ale
        clone = ale.cloneState(include_rng=True).serialize()
        held = ale.held(clone) if self._repeat else _NOTHING_HELD
        return {"ale": clone, "held": held, "np": (_pack_rng(self._env._np_random), self._env._np_random_seed)}

    def load(self, state: dict[str, Any]) -> None:
        """Put the emulator into a saved state."""
        generator, self._env._np_random_seed = state["np"]
        self._env._np_random = _unpack_rng(generator)
        if self._repeat:
            self._env.ale.hold(state["held"], state["ale"])
        else:
            _draw(self._env.ale, state["ale"], state["held"], _WARM_FRAMES)


class ActionTracker:
    """Stands in front of an ``ALEInterface`` and knows which action a sticky frame would repeat.

    The emulator repeats its last action by draws of its generator and does not report it. But the generator is in every
    clone: drawing from the last known one as often as the emulator did shows which of the actions since were taken.
    """

    def __init__(self, ale: Any) -> None:
        self._ale = ale
        self._repeat = ale.getFloat("repeat_action_probability")
        self._recent: deque[tuple[Any, ...]] = deque(maxlen=_RECENT_ACTIONS)
        self._anchor(None if ale.getEpisodeFrameNumber() else _NOTHING_HELD, self._now())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ale, name)

    def act(self, *how: Any) -> Any:
        """One frame."""
        self._recent.append(how)
        self._actions += 1
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
        """A clone that the user restores leaves the held action as it is."""
        held = self._find_held(self._now())
        self._ale.restoreState(state)
        self._anchor(held, self._now())

    restoreSystemState = restoreState

    def held(self, clone: bytes) -> tuple[int, float]:
        """The action, and its strength, that the next sticky frame would repeat; ``clone`` was taken now."""
        generator = TwisterState.in_clone(clone)
        held = self._find_held(generator)
        if held is None:
            raise ValueError("the game was stepped before its actions were tracked; reset the environment, then save")
        self._anchor(held, generator)
        return held

    def hold(self, held: tuple[int, float], clone: bytes) -> None:
        """Put the emulator into the state ``clone``, holding the action ``held``."""
        generator = TwisterState.in_clone(clone)
        sticky, _ = self._roll(generator, _RECENT_ACTIONS)
        _draw(self._ale, clone, held, max(int(np.argmin(sticky)) + 1, _WARM_FRAMES))
        self._anchor(held, generator)

    def _anchor(self, held: tuple[int, float] | None, generator: TwisterState) -> None:
        self._held, self._generator = held, generator
        self._actions = 0
        self._recent.clear()

    def _now(self) -> TwisterState:
        return TwisterState.in_clone(self._ale.cloneState(include_rng=True).serialize())

    def _find_held(self, now: TwisterState) -> tuple[int, float] | None:
        sticky, after = self._roll(self._generator, self._actions)
        if after != now:
            raise ValueError("the emulator made other draws than its actions explain; it cannot be saved exactly")
        taken = np.flatnonzero(~sticky)
        if not taken.size:
            return self._held
        action, *strength = self._recent[int(taken[-1]) - self._actions]
        return int(getattr(action, "value", action)), float(*strength or [1.0])

    def _roll(self, generator: TwisterState, actions: int) -> tuple[npt.NDArray[np.bool_], TwisterState]:
        """Which of the next actions are sticky, and the generator after them."""
        # Two draws a frame: the second is for a second player, who is never there.
        draws, after = generator.draw(2 * actions)
        return draws[::2] / 2.0**32 < self._repeat, after


def _draw(ale: Any, clone: bytes, held: tuple[int, float], frames: int) -> None:
    """Let some frames be drawn after a clone was taken, then return to it."""
    from ale_py import ALEState

    state = ALEState(clone)
    if state.getEpisodeFrameNumber() == 0:
        ale.reset_game()  # draws what was drawn there, and leaves nothing held
    else:
        ale.restoreState(state)
        for _ in range(frames):
            ale.act(*held)
    ale.restoreState(state)


def _pack_rng(generator: np.random.Generator | None) -> Any:
    """A generator of Gymnasium's own kind as its state, which takes a tenth of the time of pickling it."""
    bits = None if generator is None else generator.bit_generator
    return bits.state if type(bits) is np.random.PCG64 else generator


def _unpack_rng(packed: Any) -> Any:
    if not isinstance(packed, dict):
        return packed
    bits = np.random.PCG64()
    bits.state = cast(Any, packed)
    return np.random.Generator(bits)


# ---- seeded resets --------------------------------------------------------------------------------------------------


class CachedLoads:
    """Stands in front of an ``ALEInterface`` and restores a loaded game where it would be loaded again.

    ALE takes a seed only while it reads a ROM, and that takes a tenth of a second, as long as hundreds of steps. What
    it reads is the same each time, except for the generator of sticky frames. So the state after one load, with a newly
    seeded generator, replaces every later load, provided that a reset follows (in ``AtariEnv`` one always does).

    That is verified: the first time, and the first time from the middle of a game, both ways are taken and compared.
    """

    verified: ClassVar[dict[tuple[Any, ...], bool]] = {}
    """By ROM, and whether it had been played since its load: whether both ways led to the same state."""

    def __init__(self, ale: Any, just_loaded: tuple[Any, ...] = ()) -> None:
        self._ale, self._rom = ale, just_loaded
        self._loaded = self._clone() if just_loaded else b""
        self._is_changed = False
        self.act = ale.act  # once a frame: not by way of __getattr__

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ale, name)

    def loadROM(self, *rom: Any) -> None:
        """Insert a game: as it was after the last load, except for the seed."""
        seed = int(self._ale.getInt("random_seed"))
        is_known = self._loaded and rom == self._rom and seed not in _UNSPECIFIC_SEEDS
        if is_known and not self._is_changed and self._is_verified(rom, seed):
            self._restore(seed)
        else:
            self._load(rom)

    def setInt(self, key: Any, value: Any) -> None:
        """A seed is taken by the next load. After any other setting every load is a real one: its effect is unknown."""
        self._is_changed |= key != "random_seed"
        self._ale.setInt(key, value)

    def setBool(self, key: Any, value: Any) -> None:
        """From now on every load is a real one."""
        self._is_changed = True
        self._ale.setBool(key, value)

    def setFloat(self, key: Any, value: Any) -> None:
        """From now on every load is a real one."""
        self._is_changed = True
        self._ale.setFloat(key, value)

    def setString(self, key: Any, value: Any) -> None:
        """From now on every load is a real one."""
        self._is_changed = True
        self._ale.setString(key, value)

    def _load(self, rom: tuple[Any, ...]) -> None:
        self._ale.loadROM(*rom)
        self._rom, self._loaded = rom, self._clone()

    def _restore(self, seed: int) -> None:
        from ale_py import ALEState

        self._ale.restoreState(ALEState(TwisterState.seeded(seed).put_into(self._loaded)))

    def _is_verified(self, rom: tuple[Any, ...], seed: int) -> bool:
        """Take both ways from here, each with the reset that follows a load; the game is as loaded afterwards."""
        case = (*rom, self._ale.getFrameNumber() > 0)
        if case not in self.verified:
            self.verified[case] = _is_known_format(self._loaded) and self._is_equal(rom, seed)
        return self.verified[case]

    def _is_equal(self, rom: tuple[Any, ...], seed: int) -> bool:
        self._restore(seed)
        restored = (self._clone(), self._first_frame())
        self._load(rom)
        return restored == (self._clone(), self._first_frame())

    def _first_frame(self) -> tuple[bytes, bytes]:
        self._ale.reset_game()
        return self._clone(), self._ale.getScreenRGB().tobytes()

    def _clone(self) -> bytes:
        clone: bytes = self._ale.cloneState(include_rng=True).serialize()
        return clone


def _is_known_format(clone: bytes) -> bool:
    """Whether the generator can be taken out and put in again: another ale_py may write it in another way."""
    try:
        return TwisterState.in_clone(clone).put_into(clone) == clone
    except ValueError:
        return False


def _just_loaded(env: Any) -> tuple[Any, ...]:
    """The ROM that was loaded, if nothing has been done with it since."""
    from ale_py import roms

    is_fresh = env._game_mode is None and env._game_difficulty is None and not env.ale.getFrameNumber()
    return (roms.get_rom_path(env._game),) if is_fresh else ()
