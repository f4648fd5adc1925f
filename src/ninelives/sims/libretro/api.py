"""Libretro's C interface as ctypes: constants, structures, callbacks and functions. No behaviour.

Names follow ``libretro.h`` so that its documentation applies; only what the frontend uses is declared.
"""

from __future__ import annotations

import ctypes
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_bool,
    c_char_p,
    c_double,
    c_float,
    c_int,
    c_int16,
    c_size_t,
    c_uint,
    c_uint64,
    c_void_p,
)
from enum import IntEnum
from typing import Any

API_VERSION = 1
DEVICE_JOYPAD = 1
ID_JOYPAD_MASK = 256
MEMORY_SAVE_RAM = 0
MEMORY_SYSTEM_RAM = 2
MEMDESC_CONST = 1
MAX_OPTION_VALUES = 128


class EnvironmentCommand(IntEnum):
    """Commands of the environment callback, without the bit that marks a command as experimental."""

    GET_CAN_DUPE = 3
    GET_SYSTEM_DIRECTORY = 9
    SET_PIXEL_FORMAT = 10
    GET_VARIABLE = 15
    SET_VARIABLES = 16
    GET_VARIABLE_UPDATE = 17
    GET_LOG_INTERFACE = 27
    GET_SAVE_DIRECTORY = 31
    SET_SYSTEM_AV_INFO = 32
    SET_MEMORY_MAPS = 36
    SET_GEOMETRY = 37
    GET_INPUT_BITMASKS = 51
    GET_CORE_OPTIONS_VERSION = 52
    SET_CORE_OPTIONS = 53
    SET_CORE_OPTIONS_INTL = 54
    SET_CORE_OPTIONS_V2 = 67
    SET_CORE_OPTIONS_V2_INTL = 68


COMMAND_BITS = 0xFFFF
"""The bits of a command that identify it; the bits above mark experimental and private ones."""


class Variable(Structure):
    """``retro_variable``."""

    _fields_ = (("key", c_char_p), ("value", c_char_p))


class OptionValue(Structure):
    """``retro_core_option_value``."""

    _fields_ = (("value", c_char_p), ("label", c_char_p))


class OptionDefinition(Structure):
    """``retro_core_option_definition``."""

    _fields_ = (
        ("key", c_char_p),
        ("desc", c_char_p),
        ("info", c_char_p),
        ("values", OptionValue * MAX_OPTION_VALUES),
        ("default_value", c_char_p),
    )


class OptionV2Definition(Structure):
    """``retro_core_option_v2_definition``."""

    _fields_ = (
        ("key", c_char_p),
        ("desc", c_char_p),
        ("desc_categorized", c_char_p),
        ("info", c_char_p),
        ("info_categorized", c_char_p),
        ("category_key", c_char_p),
        ("values", OptionValue * MAX_OPTION_VALUES),
        ("default_value", c_char_p),
    )


class OptionsIntl(Structure):
    """``retro_core_options_intl``."""

    _fields_ = (("us", POINTER(OptionDefinition)), ("local", c_void_p))


class OptionsV2(Structure):
    """``retro_core_options_v2``."""

    _fields_ = (("categories", c_void_p), ("definitions", POINTER(OptionV2Definition)))


class OptionsV2Intl(Structure):
    """``retro_core_options_v2_intl``."""

    _fields_ = (("us", POINTER(OptionsV2)), ("local", c_void_p))


class SystemInfo(Structure):
    """``retro_system_info``."""

    _fields_ = (
        ("library_name", c_char_p),
        ("library_version", c_char_p),
        ("valid_extensions", c_char_p),
        ("need_fullpath", c_bool),
        ("block_extract", c_bool),
    )


class GameInfo(Structure):
    """``retro_game_info``."""

    _fields_ = (("path", c_char_p), ("data", c_void_p), ("size", c_size_t), ("meta", c_char_p))


class Geometry(Structure):
    """``retro_game_geometry``."""

    _fields_ = (
        ("base_width", c_uint),
        ("base_height", c_uint),
        ("max_width", c_uint),
        ("max_height", c_uint),
        ("aspect_ratio", c_float),
    )


class AvInfo(Structure):
    """``retro_system_av_info``."""

    _fields_ = (("geometry", Geometry), ("fps", c_double), ("sample_rate", c_double))


class MemoryDescriptor(Structure):
    """``retro_memory_descriptor``."""

    _fields_ = (
        ("flags", c_uint64),
        ("ptr", c_void_p),
        ("offset", c_size_t),
        ("start", c_size_t),
        ("select", c_size_t),
        ("disconnect", c_size_t),
        ("len", c_size_t),
        ("addrspace", c_char_p),
    )


class RetroMemoryMap(Structure):
    """``retro_memory_map``."""

    _fields_ = (("descriptors", POINTER(MemoryDescriptor)), ("num_descriptors", c_uint))


Environment = CFUNCTYPE(c_bool, c_uint, c_void_p)
VideoRefresh = CFUNCTYPE(None, c_void_p, c_uint, c_uint, c_size_t)
AudioSample = CFUNCTYPE(None, c_int16, c_int16)
AudioSampleBatch = CFUNCTYPE(c_size_t, c_void_p, c_size_t)
InputPoll = CFUNCTYPE(None)
InputState = CFUNCTYPE(c_int16, c_uint, c_uint, c_uint, c_uint)
Log = CFUNCTYPE(None, c_int, c_char_p)
"""In C a ``printf``-like function; the arguments after the format are not read."""

FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "retro_api_version": (c_uint, ()),
    "retro_get_system_info": (None, (POINTER(SystemInfo),)),
    "retro_get_system_av_info": (None, (POINTER(AvInfo),)),
    "retro_set_environment": (None, (Environment,)),
    "retro_set_video_refresh": (None, (VideoRefresh,)),
    "retro_set_audio_sample": (None, (AudioSample,)),
    "retro_set_audio_sample_batch": (None, (AudioSampleBatch,)),
    "retro_set_input_poll": (None, (InputPoll,)),
    "retro_set_input_state": (None, (InputState,)),
    "retro_set_controller_port_device": (None, (c_uint, c_uint)),
    "retro_init": (None, ()),
    "retro_deinit": (None, ()),
    "retro_load_game": (c_bool, (POINTER(GameInfo),)),
    "retro_unload_game": (None, ()),
    "retro_run": (None, ()),
    "retro_serialize_size": (c_size_t, ()),
    "retro_serialize": (c_bool, (c_void_p, c_size_t)),
    "retro_unserialize": (c_bool, (c_void_p, c_size_t)),
    "retro_get_memory_data": (c_void_p, (c_uint,)),
    "retro_get_memory_size": (c_size_t, (c_uint,)),
}
"""Result and argument types of every function that the frontend calls."""


def declare(library: ctypes.CDLL) -> None:
    """Declare the types of the core's functions; AttributeError names the first missing one."""
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
