"""Seeded resets of Atari games without reading the game anew.

ALE takes a seed only while it reads a game, and that takes a tenth of a second, as long as hundreds of steps. But what
it has read is the same each time, up to the generator of sticky frames. So the state after one load, with a generator
seeded anew, stands for every later one, as long as a reset follows (in ``AtariEnv`` one always does).

That is never taken on trust: the first time it is done both ways and compared, and the first time from the middle of a
game once more.
"""

from __future__ import annotations

from typing import Any

from ninelives.worker.snapshot_layers import Generator
from ninelives.worker.snapshots import is_exact_atari

_BY_THE_CLOCK = (0, -1)
"""Seeds that may mean "any"."""

_proven: dict[tuple[Any, ...], bool] = {}
"""By game, and whether it had been played since its load: whether both ways led to the same state in this process."""


def spare_loads(env: Any) -> None:
    """Let the innermost environment of a stack, if it is an Atari game that can be put back exactly, load only once."""
    if is_exact_atari(env):
        env.ale = QuickLoads(env.ale, _just_loaded(env))


def _is_understood(clone: bytes) -> bool:
    """Whether its generator can be taken out and put in again: another ale_py may write it in another way."""
    try:
        return Generator.in_clone(clone).put_into(clone) == clone
    except ValueError:
        return False


def _just_loaded(env: Any) -> tuple[Any, ...]:
    """What was loaded, if nothing has been done with it since."""
    from ale_py import roms  # late: most environments are no Atari games

    is_fresh = env._game_mode is None and env._game_difficulty is None and not env.ale.getFrameNumber()
    return (roms.get_rom_path(env._game),) if is_fresh else ()


class QuickLoads:
    """Stands before an ``ALEInterface`` and puts a loaded game back where it would be loaded again."""

    def __init__(self, ale: Any, just_loaded: tuple[Any, ...] = ()) -> None:
        self._ale, self._rom = ale, just_loaded
        self._loaded = self._clone() if just_loaded else b""
        self._is_changed = False
        self.act = ale.act  # once a frame: not by way of __getattr__

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ale, name)

    def loadROM(self, *rom: Any) -> None:
        """Insert a game: as it was after the last time, but for the seed."""
        seed = int(self._ale.getInt("random_seed"))
        is_known = self._loaded and rom == self._rom and seed not in _BY_THE_CLOCK
        if is_known and not self._is_changed and self._is_proven(rom, seed):
            self._put_back(seed)
        else:
            self._load(rom)

    def setInt(self, key: Any, value: Any) -> None:
        """A seed is taken by the next load. With whatever else is set, nothing is known of how loads are then."""
        self._is_changed |= key != "random_seed"
        self._ale.setInt(key, value)

    def setBool(self, key: Any, value: Any) -> None:
        """From now on every load is a true one."""
        self._is_changed = True
        self._ale.setBool(key, value)

    def setFloat(self, key: Any, value: Any) -> None:
        """From now on every load is a true one."""
        self._is_changed = True
        self._ale.setFloat(key, value)

    def setString(self, key: Any, value: Any) -> None:
        """From now on every load is a true one."""
        self._is_changed = True
        self._ale.setString(key, value)

    def _load(self, rom: tuple[Any, ...]) -> None:
        self._ale.loadROM(*rom)
        self._rom, self._loaded = rom, self._clone()

    def _put_back(self, seed: int) -> None:
        from ale_py import ALEState  # late: most environments are no Atari games

        self._ale.restoreState(ALEState(Generator.seeded(seed).put_into(self._loaded)))

    def _is_proven(self, rom: tuple[Any, ...], seed: int) -> bool:
        """Both ways from here, each with the reset that follows a load; the game is where it began afterwards."""
        case = (*rom, self._ale.getFrameNumber() > 0)
        if case not in _proven:
            _proven[case] = _is_understood(self._loaded) and self._is_equal(rom, seed)
        return _proven[case]

    def _is_equal(self, rom: tuple[Any, ...], seed: int) -> bool:
        self._put_back(seed)
        quick = (self._clone(), self._first_frame())
        self._load(rom)
        return quick == (self._clone(), self._first_frame())

    def _first_frame(self) -> tuple[bytes, bytes]:
        self._ale.reset_game()
        return self._clone(), self._ale.getScreenRGB().tobytes()

    def _clone(self) -> bytes:
        clone: bytes = self._ale.cloneState(include_rng=True).serialize()
        return clone
