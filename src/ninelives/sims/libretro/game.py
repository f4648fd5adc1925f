"""A core with a game in it: the calls from us to the core, and their end. Decides nothing about steps or states.

The game is unloaded when the last reference to it is gone. Everything that looks into the core's memory holds such a
reference, so that no view can outlive what it shows.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ninelives.errors import EmulatorError
from ninelives.sims.libretro import api, heap, library
from ninelives.sims.libretro.frontend import Frontend

MGBA = "mGBA"
AT_ONCE = 60
"""Frames between two moments at which Python can be interrupted."""


@dataclass(frozen=True)
class CoreInfo:
    """What a core says of itself."""

    name: str
    version: str
    extensions: tuple[str, ...]
    needs_path: bool


@dataclass(frozen=True)
class Timing:
    """Size of the first picture, and frames a second."""

    width: int
    height: int
    frames_per_s: float


def info_of(core: ctypes.CDLL) -> CoreInfo:
    """Command a loaded core who it is; needs no game."""
    info = api.SystemInfo()
    core.retro_get_system_info(ctypes.byref(info))
    extensions = tuple((info.valid_extensions or b"").decode().lower().split("|"))
    name, version = (info.library_name or b"?").decode(), (info.library_version or b"?").decode()
    return CoreInfo(name, version, extensions, info.need_fullpath)


class LoadedGame:
    """One private instance of a core that runs one ROM.

    Attributes:
        info: what the core says of itself.
        frontend: the other half of the conversation.
        timing: of the game that is loaded.
    """

    def __init__(self, core: Path, rom: bytes, file_name: str, directory: Path, fixed: Mapping[bytes, bytes]) -> None:
        with heap.cleared():
            self._core = loaded = library.load(core, directory)
            self.info = info_of(loaded)
            try:
                self.frontend = Frontend(directory, dict(fixed), is_silent=self.info.name == MGBA)
            except BaseException:
                library.unload(loaded)
                raise
            self._run = self.frontend.frames.runner(loaded.retro_run)
            self._start()
            try:
                self._insert(rom, file_name, directory)
            except BaseException:
                _end(loaded, self.frontend, has_game=False)
                raise
        # Not at the interpreter's end: then the system takes everything back, and views may still be read.
        weakref.finalize(self, _end, loaded, self.frontend, has_game=True).atexit = False
        loaded.retro_set_controller_port_device(0, api.DEVICE_JOYPAD)
        self.timing = self._timing()

    def _start(self) -> None:
        environment, video, sample, batch, poll, state = self.frontend.frames.callbacks
        core = self._core
        core.retro_set_environment(environment)
        core.retro_init()
        core.retro_set_video_refresh(video)
        core.retro_set_audio_sample(sample)
        core.retro_set_audio_sample_batch(batch)
        core.retro_set_input_poll(poll)
        core.retro_set_input_state(state)

    def _insert(self, rom: bytes, file_name: str, directory: Path) -> None:
        """Hand over the ROM: bytes where the core takes them, else a file that is this instance's own."""
        path = directory / file_name
        if self.info.needs_path:
            path.write_bytes(rom)
        # A core copies what it wants to keep: a ROM of 16 MB need not be held twice.
        data = None if self.info.needs_path else ctypes.cast(ctypes.c_char_p(rom), ctypes.c_void_p)
        game = api.GameInfo(os.fsencode(path), data, len(rom), None)
        if not self._core.retro_load_game(ctypes.byref(game)):
            known = ", ".join(self.info.extensions)
            raise EmulatorError(
                f"the core {self.info.name} {self.info.version} refuses {file_name} ({len(rom)} bytes). "
                f"It takes files of these kinds: {known}; is the ROM whole?"
            )

    def _timing(self) -> Timing:
        info = api.AvInfo()
        self._core.retro_get_system_av_info(ctypes.byref(info))
        return Timing(info.geometry.base_width, info.geometry.base_height, info.fps)

    def run(self, frames: int) -> None:
        """Run whole frames with the pad that the frontend holds."""
        while frames > AT_ONCE:
            self._run(AT_ONCE)
            frames -= AT_ONCE
        self._run(frames)

    def save(self) -> bytes:
        """The core's own state. Its size is asked each time: it may change as the game goes on."""
        size = self._core.retro_serialize_size()
        if not size:
            raise EmulatorError(f"the core {self.info.name} {self.info.version} cannot save its state")
        state = self.try_save(size)
        if state is None:
            raise EmulatorError(f"the core {self.info.name} {self.info.version} failed to save its state")
        return state

    def try_save(self, size: int) -> bytes | None:
        """The core's own state in so many bytes; None if it refuses."""
        # Nobody else has seen these bytes yet, so they may be written to: copying them out of a buffer takes as long as
        # the core does. At least two, because all of Python shares the shorter ones.
        state = bytes(max(size, 2))
        return state[:size] if self._core.retro_serialize(state, size) else None

    def load(self, state: bytes) -> None:
        """Put the core into a state of its own making; it is checked by the core only, which is not much."""
        # Some cores end the process when there is nothing to read.
        if not state or not self._core.retro_unserialize(state, len(state)):
            raise EmulatorError(
                f"the core {self.info.name} {self.info.version} refuses a state of {len(state)} bytes: "
                "it was made by another core or for another game, or is damaged"
            )

    def memory(self, kind: int) -> tuple[int, int]:
        """Address and size of one of libretro's kinds of memory; (0, 0) if the core has none."""
        size = self._core.retro_get_memory_size(kind)
        address = self._core.retro_get_memory_data(kind) if size else None
        return (address, size) if address else (0, 0)


def _end(core: ctypes.CDLL, frontend: Frontend, *, has_game: bool) -> None:
    """Unload for good. ``frontend`` is only held: a core may call back until it is gone."""
    if has_game:
        core.retro_unload_game()
    core.retro_deinit()
    library.unload(core)
