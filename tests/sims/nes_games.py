"""A game of ``nes_py`` on a stand-in ROM, with loops that wait for a cell of memory to change, as a famous package has.

Importable where ``nes_py`` is missing; then only the game is not.
"""

from __future__ import annotations

from functools import cache

from ninelives.errors import EmulatorError
from ninelives.sims.emulators import nes_py_env

ACTIONS = ("noop", "right", "right+a", "left")
START = 0b1000


def require_nes_py():
    """Skip where it is missing."""
    from missing import skip_missing  # here, so that workers need not

    try:
        nes_py_env.repair()
    except EmulatorError as error:
        skip_missing(error)


@cache
def runner():
    """The class of the game; ``nes_py`` is imported and repaired by whoever builds it."""
    from nes_py import NESEnv

    class Runner(NESEnv):
        """Reward is the way to the right; the flag and the hole end an episode."""

        def __init__(self, rom_path, ram_is_copied=False):
            super().__init__(str(rom_path))
            if ram_is_copied:
                self.ram = self.ram.astype(int)  # what a hasty repair does
            self._x_before = 0
            self.reset()
            self._skip_start_screen()
            self._backup()

        @property
        def time(self):
            return sum(self.ram[0x07F8 + place] * 10 ** (2 - place) for place in range(3))

        @property
        def x(self):
            return self.ram[0x6D] * 0x100 + self.ram[0x86]

        def _skip_start_screen(self):
            while self.time == 0:
                self._frame_advance(START)
                self._frame_advance(0)
            while self.ram[0x07A0] != 0:
                self._frame_advance(0)

        def _did_reset(self):
            self._x_before = self.x

        def _get_reward(self):
            before, self._x_before = self._x_before, self.x
            return self._x_before - before

        def _get_done(self):
            return self.ram[0x0E] in (0x04, 0x0B)

        def _get_info(self):
            return {"x": self.x, "time": self.time}

    return Runner


def play(rom, **settings):
    """An environment of it, as a worker builds it."""
    nes_py_env.repair()
    return nes_py_env.NesPyEnv(runner(), rom_path=str(rom), actions=ACTIONS, **settings)


def hasty(rom):
    """The same as somebody repairs it in a hurry: nothing overflows any more, and RAM is a copy that never changes."""
    from nes_py import _rom, nes_env

    _rom.ROM.header = property(lambda self: self.raw_data[:16].astype(int))
    live = nes_env.NESEnv._ram_buffer
    nes_env.NESEnv._ram_buffer = lambda self: live(self).astype(int)
    return runner()(rom)
