"""The half of the libretro frontend that a core calls: answers its requests. Per-frame callbacks are in ``frames``.

It holds no reference to the core, which would form a cycle; the code that loads the core keeps it alive for as long.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from ctypes import POINTER, c_bool, c_char_p, c_int, c_uint, c_void_p, cast
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ninelives.sims.emulators.machine import PixelLayout
from ninelives.sims.libretro import api, options
from ninelives.sims.libretro.api import EnvironmentCommand
from ninelives.sims.libretro.frames import frames_of

LAYOUTS: dict[int, PixelLayout] = {0: "rgb555", 1: "bgrx8888", 2: "rgb565"}
"""Pixel layouts by libretro's number of the format."""


@dataclass(frozen=True)
class Descriptor:
    """A piece of the core's memory and its place on the bus."""

    start: int
    size: int
    pointer: int
    select: int
    disconnect: int
    constant: bool


class Frontend:
    """Answers a core's requests; ``is_silent``: the core works without a log function.

    Attributes:
        variables: the core's options and their values; the defaults until ``set`` is called.
        layout: the core's pixel layout.
        descriptors: memory as the core declared it.
        frames: pad, picture, and the functions that the core calls.
    """

    def __init__(self, directory: Path, fixed: dict[bytes, bytes], *, is_silent: bool = False) -> None:
        self.variables: dict[bytes, bytes] = dict(fixed)
        self._is_silent = is_silent
        self.layout: PixelLayout = "rgb555"
        self.descriptors: tuple[Descriptor, ...] = ()
        self._directory = os.fsencode(directory)
        self._answers: dict[int, Callable[[int], bool]] = {
            EnvironmentCommand.GET_CAN_DUPE: self._can_dupe,
            EnvironmentCommand.GET_SYSTEM_DIRECTORY: self._directories,
            EnvironmentCommand.GET_SAVE_DIRECTORY: self._directories,
            EnvironmentCommand.SET_PIXEL_FORMAT: self._pixel_format,
            EnvironmentCommand.GET_VARIABLE: self._variable,
            EnvironmentCommand.GET_LOG_INTERFACE: self._log_interface,
            EnvironmentCommand.SET_MEMORY_MAPS: self._memory_maps,
            EnvironmentCommand.GET_CORE_OPTIONS_VERSION: self._options_version,
        }
        self.frames = frames_of(self._answer, directory)

    def set(self, key: bytes, value: bytes) -> None:
        """Change an option; the core reads it before its next frame."""
        self.variables[key] = value
        self.frames.note_option_change()

    # ---- requests -------------------------------------------------------------------------------------------------

    def _answer(self, ask: int, address: int | None) -> bool:
        ask &= api.COMMAND_BITS
        answer = self._answers.get(ask)
        if answer is not None:
            return answer(address or 0)
        if ask in options.DECLARATIONS and address:
            # Fixed values stay; a core may declare its options twice.
            self.variables = options.defaults(ask, address) | self.variables
            return True
        return False

    def _can_dupe(self, address: int) -> bool:
        """Allow a core to skip unchanged pictures; some cores reject every game otherwise."""
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
        """Provide a log function that does nothing: some cores call it without checking whether they got one.

        A core that checks gets none: mGBA would log a line in every frame.
        """
        if self._is_silent:
            return False
        c_void_p.from_address(address).value = cast(self.frames.log, c_void_p).value
        return True

    def _memory_maps(self, address: int) -> bool:
        memory: Any = cast(address, POINTER(api.RetroMemoryMap)).contents
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
