"""The ``mgba`` bindings backend: Game Boy Advance and Game Boy. Owns the native core and all it points to.

The bindings free memory that the core still uses: a picture, a ROM file. So this module calls the library below their
classes and ties the lifetime of everything the core uses to the core. It never opens a save file beside the ROM, and
never lets the core see the host's clock.

It runs on Python 3.11 only and needs the system's ``libmgba0.10``; a libretro core does the same on every Python.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ninelives.errors import ClosedError, EmulatorError
from ninelives.sims.emulators.machine import BUTTONS, Identity, MachineState, Picture
from ninelives.sims.emulators.mgba_memory import MgbaMemory
from ninelives.sims.emulators.systems import buttons_of, system_by_header

INSTALL = "pip install mgba, and apt-get install --no-install-recommends libmgba0.10"
KEYS = ("a", "b", "select", "start", "right", "left", "up", "down", "r", "l")
"""Buttons in the order of the core's own bits."""

ERASED = b"\xff"
"""The content of a cartridge's memory before anything is saved to it."""

EPOCH_MS = 1_704_067_200_000
"""The cartridge clock at power-on: 1 January 2024, 00:00 UTC. From there it counts emulated frames."""


class MgbaEmulator:
    """One GBA or Game Boy with one game loaded."""

    def __init__(self, rom: Path, *, frame_skip: int, scratch: Path | None = None) -> None:
        """Load a game and power on. ``scratch`` is not used: nothing is ever written."""
        data = Path(rom).read_bytes()
        system = _system_of(data, rom)
        self._ffi, self._lib = library()
        self._core = self._load(data, system)
        self._state = self._ffi.new("uint8_t[]", self._core.stateSize(self._core))
        self._pixels = _picture_of(self._ffi, self._core)
        self._shown: npt.NDArray[np.uint8] = np.zeros((*self._pixels.shape[:2], 3), np.uint8)
        self._is_shown = True
        self._video = _board_of(self._ffi, self._core, system).video
        self.memory = MgbaMemory(self._ffi, self._core, system)
        self.identity = Identity("mgba", "mGBA", _version(), system, hashlib.sha256(data).hexdigest())
        self.buttons = buttons_of(system)
        self.frame_skip = frame_skip
        self.frames_per_s = self._core.frequency(self._core) / self._core.frameCycles(self._core)
        self._pad = 0
        self._keys = [KEYS.index(name) if name in self.buttons else None for name in BUTTONS]

    def step(self, pad: int) -> None:
        """Run ``frame_skip`` frames; only the last is drawn."""
        self.advance(self.frame_skip, pad)

    def advance(self, frames: int, pad: int) -> None:
        """Run a number of frames; only the last is drawn."""
        core = self._open()
        if frames < 1:
            raise EmulatorError(f"frames={frames!r}: at least one frame must be run")
        if pad != self._pad:
            core.setKeys(core, self._bits(pad))
            self._pad = pad
        self._is_shown = False
        self._video.frameskipCounter = frames - 1
        for _ in range(frames):
            core.runFrame(core)

    def picture(self) -> Picture:
        """The last frame drawn; the next step overwrites it."""
        self._open()
        if not self._is_shown:
            _copy_colours(self._pixels, self._shown)
            self._is_shown = True
        return Picture(self._shown, "rgb888")

    def save(self) -> MachineState:
        """The core's state, and the cartridge's memory, which the core's state does not contain."""
        pixels = self.picture().pixels
        return MachineState(*self._saved(), pixels.tobytes(), pixels.shape, "rgb888", 0, self._pad)

    def load(self, state: MachineState) -> None:
        """Restore a state with its picture and cartridge memory."""
        core = self._open()
        self._check_state(state)
        before = self._saved()
        try:
            self._restore(state.core, state.cartridge)
        except EmulatorError:
            self._restore(*before)
            raise
        core.setKeys(core, self._bits(state.pad))
        self._pad = state.pad
        self._shown[...] = np.frombuffer(state.pixels, np.uint8).reshape(state.shape)
        _copy_colours(self._shown, self._pixels)
        self._is_shown = True

    def close(self) -> None:
        """Release the game; it is unloaded when the last view of its memory is gone."""
        self._core = self._video = None
        self.memory.close()

    def _open(self) -> Any:
        if self._core is None:
            raise ClosedError("this emulator is closed; open a new one")
        return self._core

    def _bits(self, pad: int) -> int:
        return sum(1 << bit for button, bit in enumerate(self._keys) if bit is not None and pad >> button & 1)

    def _load(self, data: bytes, system: str) -> Any:
        ffi, lib = self._ffi, self._lib
        native = lib.mCoreCreate(lib.mPLATFORM_GBA if system == "gba" else lib.mPLATFORM_GB)
        native.init(native)
        lib.mCoreInitConfig(native, ffi.NULL)
        rom = ffi.from_buffer(data)
        core = ffi.gc(native, lambda core, rom=rom: _unload(lib, ffi, core))  # the lambda keeps the ROM's bytes alive
        if not core.loadROM(core, lib.VFileFromConstMemory(rom, len(data))):
            raise EmulatorError("mGBA rejects this ROM: it is damaged or needs hardware that mGBA does not support")
        core.rtc.override, core.rtc.value = lib.RTC_FAKE_EPOCH, EPOCH_MS
        core.reset(core)
        return core

    def _saved(self) -> tuple[bytes, bytes]:
        """The core's state and the cartridge's memory."""
        if not self._core.saveState(self._core, self._state):
            raise EmulatorError("mGBA could not save its state")
        return bytes(self._ffi.buffer(self._state)), self._cartridge()

    def _cartridge(self) -> bytes:
        copy = self._ffi.new("void **")
        size = self._core.savedataClone(self._core, copy)
        return bytes(self._ffi.buffer(self._ffi.gc(copy[0], self._lib.free), size)) if size else b""

    def _restore(self, state: bytes, cartridge: bytes) -> None:
        """Load the state first: it determines the kind of the cartridge's memory."""
        core = self._core
        if not core.loadState(core, state):
            raise EmulatorError("mGBA rejects this state: it is damaged, or was saved with another ROM or version")
        size = len(self._cartridge())
        cartridge = cartridge or ERASED * size  # saved before anything was written to the cartridge
        if len(cartridge) != size or (size and not core.savedataRestore(core, cartridge, size, True)):
            raise EmulatorError(f"mGBA rejects the cartridge's memory: it has {len(cartridge)} bytes, not {size}")

    def _check_state(self, state: MachineState) -> None:
        if len(state.core) != len(self._state):
            raise EmulatorError(f"a state of this machine has {len(self._state)} bytes, not {len(state.core)}")
        if (state.layout, state.shape) != ("rgb888", self._shown.shape) or len(state.pixels) != self._shown.size:
            raise EmulatorError(
                f"the picture in this state is {state.layout} {state.shape}, not rgb888 {self._shown.shape}"
            )


@cache
def library() -> tuple[Any, Any]:
    """The bindings' ``ffi`` and ``lib``, with logging switched off.

    Raises:
        EmulatorError: they are not installed, or do not run on this Python.
    """
    if sys.version_info >= (3, 12):
        raise EmulatorError(
            f"the mgba bindings do not run on Python {sys.version_info.major}.{sys.version_info.minor}: they hang in "
            f"their first frame; use Python 3.11, or a libretro core (ninelives cores)"
        )
    try:
        inner = importlib.import_module("mgba._pylib")
    except ImportError as error:
        raise EmulatorError(f"the mgba bindings cannot be imported ({error}); install them: {INSTALL}") from error
    _silence(inner.ffi, inner.lib)
    return inner.ffi, inner.lib


_SILENT: list[Any] = []
"""The logger that discards everything. The library keeps its address, so it must never be freed."""


def _silence(ffi: Any, lib: Any) -> None:
    """Switch off logging: a line for every BIOS call would fill a pipe that is not read.

    The bindings' own way calls back into Python for every line, and the first callback hangs in a process in which an
    attribute of a capsule was accessed. This filter does not call Python.
    """
    logger, levels = ffi.new("struct mLogger *"), ffi.new("struct mLogFilter *")
    lib.mLogFilterInit(levels)
    levels.defaultLevels = 0
    logger.filter = levels
    _SILENT[:] = [logger, levels]
    lib.mLogSetDefaultLogger(logger)


def _version() -> str:
    ffi, lib = library()
    return str(ffi.string(lib.projectVersion).decode())


def _system_of(data: bytes, rom: Path) -> str:
    system = system_by_header(data)
    if system not in ("gba", "gb", "gbc"):
        raise EmulatorError(f"{rom} is not a Game Boy Advance or Game Boy ROM: it has neither header")
    return system


def _unload(lib: Any, ffi: Any, core: Any) -> None:
    lib.mCoreConfigDeinit(ffi.addressof(core.config))
    core.deinit(core)


def _picture_of(ffi: Any, core: Any) -> npt.NDArray[np.uint8]:
    """Memory for the core to draw into. The caller must keep it alive while frames run; the core does not."""
    width, height = ffi.new("unsigned *"), ffi.new("unsigned *")
    core.desiredVideoDimensions(core, width, height)
    pixels: npt.NDArray[np.uint8] = np.zeros((height[0], width[0], 4), np.uint8)
    core.setVideoBuffer(core, ffi.cast("color_t *", pixels.ctypes.data), width[0])
    core.reset(core)
    pixels[...] = 0  # the reset has painted it white
    return pixels


def _board_of(ffi: Any, core: Any, system: str) -> Any:
    return ffi.cast("struct GBA *" if system == "gba" else "struct GB *", core.board)


def _copy_colours(source: npt.NDArray[np.uint8], target: npt.NDArray[np.uint8]) -> None:
    """Copy RGB between pixels of three and four bytes; channel by channel is many times faster than all at once."""
    for colour in range(3):
        target[..., colour] = source[..., colour]
