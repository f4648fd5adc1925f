"""The ``cynes`` backend: NES games from one small wheel, on every platform. Owns the emulator and its buffers.

It is slow and draws every frame. Its steps hold the GIL, which would also stop a heartbeat thread; the pool keeps its
deadlines in another process. Two machines may differ after power-on, because cynes does not clear their memory: start
from a saved state, as ``EmulatorEnv`` does.
"""

from __future__ import annotations

import hashlib
import importlib
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ninelives.errors import ClosedError, EmulatorError
from ninelives.sims.emulators import ines
from ninelives.sims.emulators.machine import BUTTONS, Identity, MachineState, Picture
from ninelives.sims.emulators.systems import buttons_of

INSTALL = "pip install 'ninelives[nes]'"
KEYS = ("right", "left", "down", "up", "start", "select", "b", "a")
"""Buttons in the order of the emulator's own bits."""

FRAMES_PER_S = 60.0988
SCREEN = (240, 256, 3)
RAM, CARTRIDGE = ("ram", 0x0000, 0x800), ("cartridge", 0x6000, 0x2000)
"""Name, first address and size of the memory that can be read without side effects."""


SETTLE_FRAMES = 4
"""After one frame pictures still differed now and then, after four they did not, in 80 attempts each."""


class CynesEmulator:
    """One NES with one game loaded."""

    def __init__(self, rom: Path, *, frame_skip: int, scratch: Path | None = None) -> None:
        """Load a game and power on. The emulator reads a private copy of the ROM in ``scratch``, deleted right away."""
        data = Path(rom).read_bytes()
        ines.check(data, rom)
        self._nes = _insert(data, scratch)
        self._screen: npt.NDArray[np.uint8] = np.zeros(SCREEN, np.uint8)
        self.memory = CynesMemory(self._nes)
        self._state_size = self._nes.save().size
        self.identity = Identity("cynes", "cynes", version("cynes"), "nes", hashlib.sha256(data).hexdigest())
        self.buttons = buttons_of("nes")
        self.frame_skip = frame_skip
        self.frames_per_s = FRAMES_PER_S
        self._pad = 0
        self._keys = [KEYS.index(name) if name in KEYS else None for name in BUTTONS]

    def step(self, pad: int) -> None:
        """Run ``frame_skip`` frames."""
        self.advance(self.frame_skip, pad)

    def advance(self, frames: int, pad: int) -> None:
        """Run a number of frames."""
        nes = self._open()
        if frames < 1:
            raise EmulatorError(f"frames={frames!r}: at least one frame must be run")
        self._hold(pad)
        self._screen[...] = nes.step(frames)
        if nes.has_crashed:
            raise EmulatorError(
                "the game executed an instruction that does not exist, and cynes has stopped; load a state, or use "
                "another core (ninelives cores)"
            )
        self.memory.refresh()

    def picture(self) -> Picture:
        """The last frame; the next step overwrites it."""
        self._open()
        return Picture(self._screen, "rgb888")

    def save(self) -> MachineState:
        """The emulator's state, which includes the cartridge's memory."""
        state = self._open().save().tobytes()
        return MachineState(state, b"", self._screen.tobytes(), SCREEN, "rgb888", 0, self._pad)

    def load(self, state: MachineState) -> None:
        """Restore a state. The emulator checks nothing, so a state of the wrong size is rejected here."""
        nes = self._open()
        if len(state.core) != self._state_size:
            raise EmulatorError(f"a state of this machine has {self._state_size} bytes, not {len(state.core)}")
        if (state.layout, state.shape) != ("rgb888", SCREEN) or len(state.pixels) != self._screen.size:
            raise EmulatorError(f"the picture in this state is {state.layout} {state.shape}, not rgb888 {SCREEN}")
        core = np.frombuffer(state.core, np.uint8).copy()
        # States lack registers of the picture unit, so the first picture after a load would depend on what was played
        # before it. A few frames from the state, always with the same pad, set them.
        nes.load(core)
        self._hold(0)
        nes.step(SETTLE_FRAMES)
        nes.load(core)
        self._hold(state.pad)
        self._screen[...] = np.frombuffer(state.pixels, np.uint8).reshape(SCREEN)
        self.memory.refresh()

    def close(self) -> None:
        """Release the game; views of its memory keep their last contents."""
        self._nes = None
        self.memory.close()

    def _open(self) -> Any:
        if self._nes is None:
            raise ClosedError("this emulator is closed; open a new one")
        return self._nes

    def _hold(self, pad: int) -> None:
        bits = (1 << bit for button, bit in enumerate(self._keys) if bit is not None and pad >> button & 1)
        self._nes.controller = sum(bits)
        self._pad = pad


class CynesMemory:
    """Memory by bus address, copied from a saved state after every step: 2 us, while single reads take 200 us."""

    def __init__(self, nes: Any) -> None:
        self._nes = nes
        self._blocks = []
        for name, start, size in (RAM, CARTRIDGE):
            offset = _offset_in_state(nes, start, size)
            if offset >= 0:
                self._blocks.append((name, start, offset, np.zeros(size, np.uint8)))
        self.refresh()

    def refresh(self) -> None:
        """Copy the current contents."""
        state = self._nes.save()
        for _, _, offset, block in self._blocks:
            block[...] = state[offset : offset + len(block)]

    def view(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        """A live read-only view."""
        if not self._blocks:
            raise ClosedError("this emulator is closed; its memory can no longer be read")
        for _, start, _, block in self._blocks:
            if size > 0 and start <= address and address + size <= start + len(block):
                read_only = memoryview(block).toreadonly()  # type: ignore[arg-type]  # numpy's flag could be set again
                return np.frombuffer(read_only, np.uint8, size, address - start)
        known = ", ".join(f"{name} {start:#x}..{start + size - 1:#x}" for name, start, size in self.regions())
        raise EmulatorError(f"{size} bytes at {address:#x} are not mapped; mapped: {known}")

    def regions(self) -> tuple[tuple[str, int, int], ...]:
        """Name, first address and size of every mapped block."""
        if not self._blocks:
            raise ClosedError("this emulator is closed; its memory can no longer be read")
        return tuple((name, start, len(block)) for name, start, _, block in self._blocks)

    def close(self) -> None:
        """Return no further views."""
        self._nes, self._blocks = None, []


def _insert(data: bytes, scratch: Path | None) -> Any:
    try:
        cynes = importlib.import_module("cynes")
    except ImportError as error:
        raise EmulatorError(f"cynes cannot be imported ({error}); install it: {INSTALL}") from error
    with tempfile.TemporaryDirectory(prefix="cynes-", dir=scratch) as place:
        copy = Path(place, "game.nes")
        copy.write_bytes(data)
        try:
            return cynes.NES(str(copy))
        except RuntimeError as error:
            raise EmulatorError(f"cynes rejects this ROM: {error}") from error


def _offset_in_state(nes: Any, start: int, size: int) -> int:
    """The offset of a block in a saved state, found by writing a pattern, searching for it and undoing it; else -1."""
    before = nes.save()
    pattern = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    for address, value in enumerate(pattern.tolist(), start):
        nes[address] = value
    offset: int = nes.save().tobytes().find(pattern.tobytes())
    nes.load(before)
    return offset
