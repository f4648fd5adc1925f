"""The half of the host that a core calls: answers its questions, hands it the pad, takes its pictures.

The callbacks know nothing of the core that calls them, so that they form no cycle with it; whoever loads the core keeps
``callbacks`` alive as long as the core. They run inside ``retro_run`` and must stay short.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from ctypes import POINTER, c_bool, c_char_p, c_int, c_uint, c_void_p, cast
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rookery.sims.emulator import PixelLayout
from rookery.sims.libretro import api, options
from rookery.sims.libretro.api import Ask

LAYOUTS: dict[int, PixelLayout] = {0: "rgb555", 1: "bgrx8888", 2: "rgb565"}
"""By libretro's number of a pixel format."""

Video = tuple[int, int, int, int]
"""Address, width, height and bytes a row of a picture in the core's memory."""


@dataclass(frozen=True)
class Descriptor:
    """A piece of the core's memory and where it lies on the bus."""

    start: int
    size: int
    pointer: int
    select: int
    disconnect: int
    constant: bool


class Frontend:
    """What a core sees of the world.

    Attributes:
        variables: the core's options and their values; the defaults until ``set`` is called.
        pad: buttons held, as a number.
        layout: how the core's pixels lie.
        video: the last picture; None before the first.
        descriptors: memory as the core declared it.
        callbacks: the six functions in the order ``retro_set_...`` takes them; to be kept alive.
    """

    def __init__(self, directory: Path, fixed: dict[bytes, bytes]) -> None:
        self.variables: dict[bytes, bytes] = dict(fixed)
        self.pad = 0
        self.layout: PixelLayout = "rgb555"
        self.video: Video | None = None
        self.descriptors: tuple[Descriptor, ...] = ()
        self._changed = False
        self._directory = os.fsencode(directory)
        self._log = api.Log(lambda level, text: None)
        self._answers: dict[int, Callable[[int], bool]] = {
            Ask.GET_CAN_DUPE: self._can_dupe,
            Ask.GET_SYSTEM_DIRECTORY: self._directories,
            Ask.GET_SAVE_DIRECTORY: self._directories,
            Ask.SET_PIXEL_FORMAT: self._pixel_format,
            Ask.GET_VARIABLE: self._variable,
            Ask.GET_VARIABLE_UPDATE: self._variable_update,
            Ask.GET_LOG_INTERFACE: self._log_interface,
            Ask.SET_MEMORY_MAPS: self._memory_maps,
            Ask.SET_SYSTEM_AV_INFO: lambda address: True,
            Ask.SET_GEOMETRY: lambda address: True,
            Ask.GET_INPUT_BITMASKS: lambda address: True,
            Ask.GET_CORE_OPTIONS_VERSION: self._options_version,
        }
        self.callbacks = (
            api.Environment(self._environment),
            api.VideoRefresh(self._video_refresh),
            api.AudioSample(lambda left, right: None),
            api.AudioSampleBatch(lambda samples, count: count),
            api.InputPoll(lambda: None),
            api.InputState(self._input_state),
        )

    def set(self, key: bytes, value: bytes) -> None:
        """Change an option; the core looks at it before its next frame."""
        self.variables[key] = value
        self._changed = True

    # ---- every frame ----------------------------------------------------------------------------------------------

    def _video_refresh(self, address: int | None, width: int, height: int, pitch: int) -> None:
        if address:
            self.video = address, width, height, pitch

    def _input_state(self, port: int, device: int, index: int, button: int) -> int:
        if port or device != api.DEVICE_JOYPAD:
            return 0
        return self.pad if button == api.ID_JOYPAD_MASK else (self.pad >> button) & 1

    def _variable_update(self, address: int) -> bool:
        c_bool.from_address(address).value = self._changed
        self._changed = False
        return True

    # ---- questions ------------------------------------------------------------------------------------------------

    def _environment(self, ask: int, address: int | None) -> bool:
        ask &= api.ASK_BITS
        answer = self._answers.get(ask)
        if answer is not None:
            return answer(address or 0)
        if ask in options.DECLARATIONS and address:
            # What the host has fixed stays; a core may declare its options twice.
            self.variables = options.defaults(ask, address) | self.variables
            return True
        return False

    def _can_dupe(self, address: int) -> bool:
        """A core may show nothing when nothing changed; some refuse every game if it may not."""
        c_bool.from_address(address).value = True
        return True

    def _directories(self, address: int) -> bool:
        c_char_p.from_address(address).value = self._directory
        return True

    def _pixel_format(self, address: int) -> bool:
        layout = LAYOUTS.get(c_int.from_address(address).value)
        self.layout = layout or self.layout
        return layout is not None

    def _variable(self, address: int) -> bool:
        variable = api.Variable.from_address(address)
        value = self.variables.get(variable.key)
        if value is None:
            return False
        variable.value = value
        return True

    def _options_version(self, address: int) -> bool:
        c_uint.from_address(address).value = options.VERSION
        return True

    def _log_interface(self, address: int) -> bool:
        """Some cores call this function without looking whether they got one."""
        c_void_p.from_address(address).value = cast(self._log, c_void_p).value
        return True

    def _memory_maps(self, address: int) -> bool:
        memory: Any = cast(address, POINTER(api.MemoryMap)).contents
        found = (memory.descriptors[index] for index in range(memory.num_descriptors))
        self.descriptors = tuple(
            Descriptor(
                entry.start, entry.len, entry.ptr + entry.offset, entry.select, entry.disconnect,
                bool(entry.flags & api.MEMDESC_CONST),
            )
            for entry in found
            if entry.ptr and entry.len
        )  # fmt: skip
        return True
