"""A core with a loaded game: the calls to the core, and unloading. Decides nothing about steps or states.

The game is unloaded when the last reference to it is gone. Everything that views the core's memory holds such a
reference, so no view can outlive the memory.
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
"""Most frames in one native call: Python can be interrupted only between calls."""


@dataclass(frozen=True)
class CoreInfo:
    """What a core reports about itself."""

    name: str
    version: str
    extensions: tuple[str, ...]
    needs_path: bool


@dataclass(frozen=True)
class Timing:
    """Size of the first picture, and frames per second."""

    width: int
    height: int
    frames_per_s: float


def info_of(core: ctypes.CDLL) -> CoreInfo:
    """Ask a loaded core for its name and version; needs no game."""
    info = api.SystemInfo()
    core.retro_get_system_info(ctypes.byref(info))
    extensions = tuple((info.valid_extensions or b"").decode().lower().split("|"))
    name, version = (info.library_name or b"?").decode(), (info.library_version or b"?").decode()
    return CoreInfo(name, version, extensions, info.need_fullpath)


class LoadedGame:
    """One private instance of a core that runs one ROM.

    Attributes:
        info: what the core reports about itself.
        frontend: the object that the core calls.
        timing: picture size and frame rate of the game.
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
        # Not at interpreter exit: the system frees everything then, and views may still be read.
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
        """Pass the ROM to the core: as bytes if the core accepts them, else as a file of this instance."""
        path = directory / file_name
        if self.info.needs_path:
            path.write_bytes(rom)
        # A core copies the data: a ROM of 16 MB need not be kept twice.
        data = None if self.info.needs_path else ctypes.cast(ctypes.c_char_p(rom), ctypes.c_void_p)
        game = api.GameInfo(os.fsencode(path), data, len(rom), None)
        if not self._core.retro_load_game(ctypes.byref(game)):
            known = ", ".join(self.info.extensions)
            raise EmulatorError(
                f"the core {self.info.name} {self.info.version} rejects {file_name} ({len(rom)} bytes). "
                f"It accepts these file types: {known}; is the ROM complete?"
            )

    def _timing(self) -> Timing:
        info = api.AvInfo()
        self._core.retro_get_system_av_info(ctypes.byref(info))
        return Timing(info.geometry.base_width, info.geometry.base_height, info.fps)

    def run(self, frames: int) -> None:
        """Run frames with the pad of the frontend."""
        while frames > AT_ONCE:
            self._run(AT_ONCE)
            frames -= AT_ONCE
        self._run(frames)

    def save(self) -> bytes:
        """The core's own state. Its size may change during a game, so it is queried each time."""
        size = self._core.retro_serialize_size()
        if not size:
            raise EmulatorError(f"the core {self.info.name} {self.info.version} cannot save its state")
        state = self.try_save(size)
        if state is None:
            raise EmulatorError(f"the core {self.info.name} {self.info.version} failed to save its state")
        return state

    def try_save(self, size: int) -> bytes | None:
        """The core's own state in ``size`` bytes; None if the core needs more."""
        # No other reference to these bytes exists yet, so the core may write into them: copying from a buffer takes as
        # long as saving. At least two bytes, because Python shares the shorter objects.
        state = bytes(max(size, 2))
        return state[:size] if self._core.retro_serialize(state, size) else None

    def load(self, state: bytes) -> None:
        """Restore a core's own state; only the core checks it, and most check little."""
        # Some cores end the process when the state is empty.
        if not state or not self._core.retro_unserialize(state, len(state)):
            raise EmulatorError(
                f"the core {self.info.name} {self.info.version} rejects a state of {len(state)} bytes: "
                "it was made by another core or for another game, or is damaged"
            )

    def memory(self, kind: int) -> tuple[int, int]:
        """Address and size of one of libretro's kinds of memory; (0, 0) if the core has none."""
        size = self._core.retro_get_memory_size(kind)
        address = self._core.retro_get_memory_data(kind) if size else None
        return (address, size) if address else (0, 0)


def _end(core: ctypes.CDLL, frontend: Frontend, *, has_game: bool) -> None:
    """Unload the game and the core. ``frontend`` is only kept alive: a core may call it until it is unloaded."""
    if has_game:
        core.retro_unload_game()
    core.retro_deinit()
    library.unload(core)
