"""A core's options and their defaults, from all four forms of declarations. Only reads the core's memory."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from ctypes import POINTER, cast
from typing import Any

from ninelives.sims.libretro.api import (
    EnvironmentCommand,
    OptionDefinition,
    OptionsIntl,
    OptionsV2,
    OptionsV2Intl,
    OptionV2Definition,
    Variable,
)

VERSION = 2
"""The newest form of declarations that is supported."""

DECLARATIONS = frozenset(
    {
        EnvironmentCommand.SET_VARIABLES,
        EnvironmentCommand.SET_CORE_OPTIONS,
        EnvironmentCommand.SET_CORE_OPTIONS_INTL,
        EnvironmentCommand.SET_CORE_OPTIONS_V2,
        EnvironmentCommand.SET_CORE_OPTIONS_V2_INTL,
    }
)


def defaults(ask: int, address: int) -> dict[bytes, bytes]:
    """Key and default of every option declared at ``address`` in the form given by the command ``ask``."""
    if ask == EnvironmentCommand.SET_VARIABLES:
        return {entry.key: _first_choice(entry.value) for entry in _entries(Variable, address)}
    if ask == EnvironmentCommand.SET_CORE_OPTIONS:
        return _of(OptionDefinition, address)
    if ask == EnvironmentCommand.SET_CORE_OPTIONS_INTL:
        return _of(OptionDefinition, _address(cast(address, POINTER(OptionsIntl)).contents.us))
    if ask == EnvironmentCommand.SET_CORE_OPTIONS_V2_INTL:
        address = _address(cast(address, POINTER(OptionsV2Intl)).contents.us)
    return _of(OptionV2Definition, _address(cast(address, POINTER(OptionsV2)).contents.definitions))


def _of(kind: type[Any], address: int) -> dict[bytes, bytes]:
    return {entry.key: entry.default_value or entry.values[0].value or b"" for entry in _entries(kind, address)}


def _entries(kind: type[Any], address: int) -> Iterator[Any]:
    """The elements of an array that is terminated by an element without a key."""
    if not address:
        return
    array = cast(address, POINTER(kind))
    index = 0
    while array[index].key:
        yield array[index]
        index += 1


def _address(pointer: Any) -> int:
    return cast(pointer, ctypes.c_void_p).value or 0


def _first_choice(text: bytes | None) -> bytes:
    """The default in ``Description; default|other|another``."""
    return (text or b"").partition(b"; ")[2].split(b"|")[0]
