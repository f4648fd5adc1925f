"""A machine over ``cynes``: NES games from one small wheel, on every platform. Owns the emulator and its copies.

It is slow and draws every frame. Its steps hold the interpreter's lock, so a heartbeat thread would stand still with
it; the pool keeps its deadlines in another process. Two machines that were just switched on may differ, because cynes
does not clear their memory: begin from a saved state, as ``EmulatorEnv`` does.
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
from ninelives.sims.emulators.emulator import BUTTONS, Identity, MachineState, Picture
from ninelives.sims.emulators.systems import buttons_of

INSTALL = "pip install 'ninelives[nes]'"
KEYS = ("right", "left", "down", "up", "start", "select", "b", "a")
"""Buttons in the order of the emulator's own bits."""

FRAMES_PER_S = 60.0988
SCREEN = (240, 256, 3)
RAM, CARTRIDGE = ("ram", 0x0000, 0x800), ("cartridge", 0x6000, 0x2000)
"""Name, first address and size of what can be read without disturbing the machine."""


class CynesEmulator:
    """One NES with one game in it."""

    def __init__(self, rom: Path, *, frame_skip: int, scratch: Path | None = None) -> None:
        """Load and switch on. The emulator reads a private copy of the ROM in ``scratch``, which goes at once."""
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
        """Run some frames."""
        nes = self._open()
        if frames < 1:
            raise EmulatorError(f"frames={frames!r}: at least one frame must be run")
        self._hold(pad)
        self._screen[...] = nes.step(frames)
        if nes.has_crashed:
            raise EmulatorError(
                "the game ran into an instruction that no NES has, and cynes stands still; load a state, or use "
                "another core (ninelives cores)"
            )
        self.memory.refresh()

    def picture(self) -> Picture:
        """The last frame; the next step draws over it."""
        self._open()
        return Picture(self._screen, "rgb888")

    def save(self) -> MachineState:
        """The emulator's state, which holds the cartridge's memory too."""
        state = self._open().save().tobytes()
        return MachineState(state, b"", self._screen.tobytes(), SCREEN, "rgb888", 0, self._pad)

    def load(self, state: MachineState) -> None:
        """Be there. The emulator checks nothing, so a state of the wrong size never reaches it."""
        nes = self._open()
        if len(state.core) != self._state_size:
            raise EmulatorError(f"a state of this machine has {self._state_size} bytes, not {len(state.core)}")
        if (state.layout, state.shape) != ("rgb888", SCREEN) or len(state.pixels) != self._screen.size:
            raise EmulatorError(f"the picture in this state is {state.layout} {state.shape}, not rgb888 {SCREEN}")
        nes.load(np.frombuffer(state.core, np.uint8).copy())
        self._hold(state.pad)
        self._screen[...] = np.frombuffer(state.pixels, np.uint8).reshape(SCREEN)
        self.memory.refresh()

    def close(self) -> None:
        """Let go of the game; views of its memory keep what they last showed."""
        self._nes = None
        self.memory.close()

    def _open(self) -> Any:
        if self._nes is None:
            raise ClosedError("this emulator was closed; open a new one")
        return self._nes

    def _hold(self, pad: int) -> None:
        bits = (1 << bit for button, bit in enumerate(self._keys) if bit is not None and pad >> button & 1)
        self._nes.controller = sum(bits)
        self._pad = pad


class CynesMemory:
    """Memory by bus address, copied out of a saved state after every step: 2 us, where single cells take 200 us."""

    def __init__(self, nes: Any) -> None:
        self._nes = nes
        self._blocks = []
        for name, start, size in (RAM, CARTRIDGE):
            offset = _offset_in_state(nes, start, size)
            if offset >= 0:
                self._blocks.append((name, start, offset, np.zeros(size, np.uint8)))
        self.refresh()

    def refresh(self) -> None:
        """Look again."""
        state = self._nes.save()
        for _, _, offset, block in self._blocks:
            block[...] = state[offset : offset + len(block)]

    def view(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        """A live read-only view."""
        if not self._blocks:
            raise ClosedError("this emulator was closed; its memory can no longer be looked up")
        for _, start, _, block in self._blocks:
            if size > 0 and start <= address and address + size <= start + len(block):
                read_only = memoryview(block).toreadonly()  # type: ignore[arg-type]  # numpy's flag could be set again
                return np.frombuffer(read_only, np.uint8, size, address - start)
        known = ", ".join(f"{name} {start:#x}..{start + size - 1:#x}" for name, start, size in self.regions())
        raise EmulatorError(f"{size} bytes at {address:#x} are not mapped; mapped: {known}")

    def regions(self) -> tuple[tuple[str, int, int], ...]:
        """Name, first address and size of every mapped block."""
        if not self._blocks:
            raise ClosedError("this emulator was closed; its memory can no longer be looked up")
        return tuple((name, start, len(block)) for name, start, _, block in self._blocks)

    def close(self) -> None:
        """Hand out nothing more."""
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
            raise EmulatorError(f"cynes refuses this ROM: {error}") from error


def _offset_in_state(nes: Any, start: int, size: int) -> int:
    """Where a block lies in a saved state: write a pattern, look for it, undo. -1 if it is not there."""
    before = nes.save()
    pattern = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    for address, value in enumerate(pattern.tolist(), start):
        nes[address] = value
    offset: int = nes.save().tobytes().find(pattern.tobytes())
    nes.load(before)
    return offset
