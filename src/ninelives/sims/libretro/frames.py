"""What a core calls in every frame: it looks for changed options, asks for the pad, hands over a picture and sound.

``PyFrames`` and ``NativeFrames`` are twins and behave the same; where Python is called in every frame, a step takes a
tenth longer. Neither knows the core that calls, so that they form no cycle with it; whoever loads the core keeps them
alive as long as the core. Everything that is asked seldom goes on to the frontend.
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
from ninelives.sims.libretro.api import Ask

LIBRARY = "ninelives.sims.libretro._frames"

Video = tuple[int, int, int, int]
"""Address, width, height and bytes a row of a picture in the core's memory."""

GRANTED = frozenset((Ask.SET_SYSTEM_AV_INFO, Ask.SET_GEOMETRY, Ask.GET_INPUT_BITMASKS))
"""Asked by some cores in every frame, and always answered with yes: every picture says its own size."""

Answer = Callable[[int, int | None], bool]
"""What the frontend says to a question and the address of its answer."""


class Frames(Protocol):
    """Every frame of one machine.

    Attributes:
        pad: buttons held, as a number.
        callbacks: the six functions in the order ``retro_set_...`` takes them.
        log: what a core may tell its log; nobody reads it.
    """

    pad: int
    callbacks: tuple[Any, ...]
    log: Any

    @property
    def moves(self) -> int:
        """How often pictures have come from another place or in another size; ``video`` is the same until then."""

    @property
    def video(self) -> Video | None:
        """The last picture; None before the first."""

    def tell_change(self) -> None:
        """An option has another value: the core looks before its next frame."""

    def runner(self, frame: Callable[[], None]) -> Callable[[int], None]:
        """A function that runs so many frames; ``frame`` is the core's own, for one."""


def frames_of(answer: Answer, place: Path) -> Frames:
    """The native twin where it is built and not switched off; ``place`` is a directory for a private copy of it."""
    path = native_library(LIBRARY)
    return PyFrames(answer) if path is None else NativeFrames(answer, path, place)


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

    def tell_change(self) -> None:
        """An option has another value: the core looks before its next frame."""
        self._changed = True

    def runner(self, frame: Callable[[], None]) -> Callable[[int], None]:
        """A function that runs so many frames."""

        def run(frames: int) -> None:
            for _ in repeat(None, frames):
                frame()

        return run

    def _environment(self, ask: int, address: int | None) -> bool:
        what = ask & api.ASK_BITS
        if what in GRANTED:
            return True
        if what != Ask.GET_VARIABLE_UPDATE:
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


class Desk(ctypes.Structure):
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
    """The twin that asks Python only what is asked seldom.

    Args:
        answer: for those questions.
        path: the library.
        place: directory for a private copy of it.
    """

    def __init__(self, answer: Answer, path: Path, place: Path) -> None:
        loaded = library.private(path, place, "frames")
        weakref.finalize(self, library.unload, loaded).atexit = False
        loaded.ninelives_desk.restype = ctypes.POINTER(Desk)
        self._desk: Any = loaded.ninelives_desk().contents
        self._ask = self._desk.ask = api.Environment(answer)
        desk = self._desk
        self.log: Any = desk.log
        self.callbacks: tuple[Any, ...] = (
            desk.environment, desk.video, desk.sample, desk.samples, desk.poll, desk.state,
        )  # fmt: skip

    @property
    def pad(self) -> int:
        """Buttons held, as a number."""
        return int(self._desk.pad)

    @pad.setter
    def pad(self, pad: int) -> None:
        self._desk.pad = pad

    @property
    def moves(self) -> int:
        """How often pictures have come from another place or in another size."""
        return int(self._desk.moves)

    @property
    def video(self) -> Video | None:
        """The last picture; None before the first."""
        desk = self._desk
        return (desk.address, desk.width, desk.height, desk.pitch) if desk.address else None

    def tell_change(self) -> None:
        """An option has another value: the core looks before its next frame."""
        self._desk.changed = True

    def runner(self, frame: Callable[[], None]) -> Callable[[int], None]:
        """A function that runs so many frames."""
        return partial(self._desk.run, frame)
