"""The callbacks that a core calls in every frame: changed options, pad input, picture and sound.

``PyFrames`` and ``NativeFrames`` are twins with the same behaviour; with Python callbacks in every frame a step takes
10 % longer. Neither holds a reference to the core, which would form a cycle; the code that loads the core keeps them
alive for as long. Rare requests are passed on to the frontend.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from ctypes import CFUNCTYPE, c_bool, c_size_t, c_uint32, c_void_p
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any, Protocol

from ninelives.native import native_library
from ninelives.sims.libretro import api, library
from ninelives.sims.libretro.api import EnvironmentCommand

LIBRARY = "ninelives.sims.libretro._frames"

Video = tuple[int, int, int, int]
"""Address, width, height and bytes per row of a picture in the core's memory."""

GRANTED = frozenset(
    (EnvironmentCommand.SET_SYSTEM_AV_INFO, EnvironmentCommand.SET_GEOMETRY, EnvironmentCommand.GET_INPUT_BITMASKS)
)
"""Sent by some cores in every frame and always accepted: every picture comes with its own size."""

Answer = Callable[[int, int | None], bool]
"""The frontend's handler: takes a command and the address of its data, returns whether it is supported."""


class Frames(Protocol):
    """The per-frame callbacks of one machine.

    Attributes:
        pad: buttons held, as a bit mask.
        callbacks: the six functions in the order of libretro's ``retro_set_...`` functions.
        log: a log function that discards its input.
    """

    pad: int
    callbacks: tuple[Any, ...]
    log: Any

    @property
    def moves(self) -> int:
        """How often the picture's address or size has changed; ``video`` is the same until then."""

    @property
    def video(self) -> Video | None:
        """The last picture; None before the first."""

    def note_option_change(self) -> None:
        """An option has changed: the core reads it before its next frame."""

    def runner(self, frame: Callable[[], None]) -> Callable[[int], None]:
        """A function that runs a given number of frames; ``frame`` is the core's function for one frame."""


def frames_of(answer: Answer, directory: Path) -> Frames:
    """The native twin if it is built and not switched off; a private copy of it is made in ``directory``."""
    path = native_library(LIBRARY)
    return PyFrames(answer) if path is None else NativeFrames(answer, path, directory)


# ---- in Python ----------------------------------------------------------------------------------------------------


class PyFrames:
    """The twin that needs no compiler."""

    def __init__(self, answer: Answer) -> None:
        self.pad = self.moves = 0
        self.video: Video | None = None
        self._changed = False
        self._answer = answer
        self.log: Any = api.Log(lambda level, text: None)
        self.callbacks: tuple[Any, ...] = (
            api.Environment(self._environment),
            api.VideoRefresh(self._video_refresh),
            api.AudioSample(lambda left, right: None),
            api.AudioSampleBatch(lambda samples, count: count),
            api.InputPoll(lambda: None),
            api.InputState(self._input_state),
        )

    def note_option_change(self) -> None:
        """An option has changed: the core reads it before its next frame."""
        self._changed = True

    def runner(self, frame: Callable[[], None]) -> Callable[[int], None]:
        """A function that runs a given number of frames."""

        def run(frames: int) -> None:
            for _ in repeat(None, frames):
                frame()

        return run

    def _environment(self, ask: int, address: int | None) -> bool:
        what = ask & api.COMMAND_BITS
        if what in GRANTED:
            return True
        if what != EnvironmentCommand.GET_VARIABLE_UPDATE:
            return self._answer(ask, address)
        c_bool.from_address(address or 0).value = self._changed
        self._changed = False
        return True

    def _video_refresh(self, address: int | None, width: int, height: int, pitch: int) -> None:
        video = (address, width, height, pitch) if address else self.video
        if video != self.video:
            self.video = video
            self.moves += 1

    def _input_state(self, port: int, device: int, index: int, button: int) -> int:
        if port or device != api.DEVICE_JOYPAD:
            return 0
        return self.pad if button == api.ID_JOYPAD_MASK else (self.pad >> button) & 1


# ---- native -------------------------------------------------------------------------------------------------------

Run = CFUNCTYPE(None, c_void_p, c_uint32)


class FrameState(ctypes.Structure):
    """The struct of ``_frames.c``, field by field."""

    _fields_ = (
        ("ask", api.Environment),
        ("address", c_void_p),
        ("pitch", c_size_t),
        ("width", c_uint32),
        ("height", c_uint32),
        ("moves", c_uint32),
        ("pad", c_uint32),
        ("changed", c_bool),
        ("environment", api.Environment),
        ("video", api.VideoRefresh),
        ("sample", api.AudioSample),
        ("samples", api.AudioSampleBatch),
        ("poll", api.InputPoll),
        ("state", api.InputState),
        ("log", api.Log),
        ("run", Run),
    )


class NativeFrames:
    """The native twin: it calls Python only for what a core rarely asks.

    Args:
        answer: answers those requests.
        path: the library.
        directory: where a private copy of the library is made.
    """

    def __init__(self, answer: Answer, path: Path, directory: Path) -> None:
        loaded = library.private(path, directory, "frames")
        weakref.finalize(self, library.unload, loaded).atexit = False
        loaded.ninelives_frame_state.restype = ctypes.POINTER(FrameState)
        state: Any = loaded.ninelives_frame_state().contents
        self._state = state
        self._ask = state.ask = api.Environment(answer)
        self.log: Any = state.log
        self.callbacks: tuple[Any, ...] = (
            state.environment, state.video, state.sample, state.samples, state.poll, state.state,
        )  # fmt: skip

    @property
    def pad(self) -> int:
        """Buttons held, as a bit mask."""
        return int(self._state.pad)

    @pad.setter
    def pad(self, pad: int) -> None:
        self._state.pad = pad

    @property
    def moves(self) -> int:
        """How often the picture's address or size has changed."""
        return int(self._state.moves)

    @property
    def video(self) -> Video | None:
        """The last picture; None before the first."""
        state = self._state
        return (state.address, state.width, state.height, state.pitch) if state.address else None

    def note_option_change(self) -> None:
        """An option has changed: the core reads it before its next frame."""
        self._state.changed = True

    def runner(self, frame: Callable[[], None]) -> Callable[[int], None]:
        """A function that runs a given number of frames."""
        return partial(self._state.run, frame)
