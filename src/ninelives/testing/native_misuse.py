"""Misuse of real emulators that ends in a real crash or hang: each function takes a machine and does not return.

Nothing here is simulated: no signal is sent, and no sleep imitates a hang. Every function reproduces, in its smallest
form, a mistake found in real code. Never call one in a process that must survive.
"""

from __future__ import annotations

import ctypes
import dataclasses
import fcntl
import importlib
import mmap
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ninelives.sims.emulators import nes_py_env
from ninelives.sims.emulators.machine import MachineState
from ninelives.sims.emulators.mgba import library

PIPE_BYTES = 4096
MOST_LOGGED_FRAMES = 20_000
GBA_RAM, GBA_SAVE = 0x02000000, 0x0E000000
GBA_SCREEN = 240, 160
LANTERN_MODE, LANTERN_TITLE, NES_START = 0x04, 0, 0b1000
LANTERN_ACTIONS = ("noop", "right", "right+a", "left", "a")


# ---- damaged states ------------------------------------------------------------------------------------------------


def cynes_state_byte(machine: Any) -> None:
    """One wrong byte in a state: the emulator uses it as an index without checking, and the process dies."""
    _load_with(machine, 676, b"\xff")


def fceumm_state_length(machine: Any) -> None:
    """A wrong length of a field in a state: the core skips by it, arrives at the same field again, and never ends."""
    _load_with(machine, 25, (-8).to_bytes(4, "little", signed=True))


def old_mgba_state_byte(machine: Any) -> None:
    """One wrong byte in a state, an event in the far past: the core never finishes the next frame."""
    _load_with(machine, 1031, b"\x80")


def _load_with(machine: Any, offset: int, damage: bytes) -> None:
    good: MachineState = machine.save()
    wrong = bytearray(good.core)
    wrong[offset : offset + len(damage)] = damage
    machine.load(dataclasses.replace(good, core=bytes(wrong)))
    for _ in range(3):
        machine.step(0)
    _survived(f"a state with {damage.hex()} at byte {offset}")


# ---- use after free ------------------------------------------------------------------------------------------------


def run_after_unload(machine: Any) -> None:
    """A frame is run after its game was unloaded."""
    core = _core(machine)
    core.retro_unload_game()
    core.retro_run()
    _survived("a frame after its game was unloaded")


def stale_memory_view(machine: Any) -> None:
    """The machine's memory is read after the machine was unloaded. Our own views would have kept it alive."""
    address = machine.memory.view(GBA_RAM, 1).ctypes.data
    core = _core(machine)
    core.retro_unload_game()
    core.retro_deinit()
    ctypes.string_at(address, 1)
    _survived("a read of freed memory")


def dropped_picture(machine: Any) -> None:
    """The core's picture is freed while it still draws: the bindings' ``set_video_buffer`` keeps no reference."""
    ffi, _ = library()
    width, height = GBA_SCREEN
    picture = mmap.mmap(-1, width * height * 4)  # as malloc does for blocks of this size
    pixels = ffi.from_buffer(picture)
    machine._core.setVideoBuffer(machine._core, ffi.cast("color_t *", pixels), width)
    ffi.release(pixels)
    picture.close()
    machine.step(0)
    _survived("drawing into freed memory")


# ---- files and pipes -----------------------------------------------------------------------------------------------


def rewritten_save_file(machine: Any) -> None:
    """A cartridge's save file is mapped, and another reset truncates it."""
    _, lib = library()
    with tempfile.NamedTemporaryFile(suffix=".sav") as file:
        core = machine._core
        core.loadSave(core, lib.VFileOpen(file.name.encode(), os.O_RDWR))
        core.busRead8(core, GBA_SAVE)  # the first read maps it
        os.truncate(file.name, 0)
        core.busRead8(core, GBA_SAVE)
    _survived("its save file being truncated")


def unread_log(machine: Any) -> None:
    """The library prints a line for every BIOS call into a pipe that is not read."""
    ffi, lib = library()
    _, end = os.pipe()
    fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    os.dup2(end, sys.__stdout__.fileno() if sys.__stdout__ else 1)
    lib.mLogSetDefaultLogger(ffi.NULL)
    machine.advance(MOST_LOGGED_FRAMES, 0)
    _survived("an unread log")


# ---- a constructor that never ends ---------------------------------------------------------------------------------


def game_with_start_screen(rom: Path, *, is_endless: bool) -> nes_py_env.NesPyEnv:
    """A game of ``nes_py`` that skips its start screen while it is built, as ``gym-super-mario-bros`` does.

    If ``is_endless``, RAM is a copy, as an incorrect fix for NumPy 2 makes it. It never changes, so the loop that waits
    for a change never ends. Nothing crashes and nothing is printed.
    """
    nes_py_env.repair()
    base: Any = importlib.import_module("nes_py.nes_env").NESEnv

    class StartScreen(base):  # type: ignore[misc]
        ram: Any

        def __init__(self) -> None:
            super().__init__(str(rom))
            if is_endless:
                self.ram = self.ram.astype(np.int32)
                self.max_skipped_frames = sys.maxsize  # as if the loop had no bound
            self.reset()
            self._skip_start_screen()
            self._backup()

        def _skip_start_screen(self) -> None:
            while self.ram[LANTERN_MODE] == LANTERN_TITLE:
                self._frame_advance(NES_START)
                self._frame_advance(0)

    return nes_py_env.NesPyEnv(StartScreen, actions=LANTERN_ACTIONS, frame_skip=4)


def _core(machine: Any) -> Any:
    """The libretro core itself, without the checks that would prevent its misuse."""
    return machine._game._core


def _survived(what: str) -> None:
    raise RuntimeError(f"this version of the emulator survived {what}: the fault cannot be reproduced here")
