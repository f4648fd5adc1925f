"""Whether the native modules or their pure-Python twins are in use, and why.

``NINELIVES_NATIVE=0`` selects the pure-Python path, and so does an installation without a compiler. Both behave the
same.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

MODULES = (
    "ninelives.transport._exchange",
    "ninelives.worker._loop",
    "ninelives.worker._infos",
    "ninelives.worker._digest",
    "ninelives.worker._stack",
    "ninelives.pool.data._batch",
    "ninelives.pool.recovery._recorder",
    "ninelives.sims.emulators._resize",
    "ninelives.sims.emulators._sparse",
)
LIBRARIES = ("ninelives.sims.libretro._frames",)
"""Built and found like modules, but not loaded by an import."""


@dataclass(frozen=True)
class NativeStatus:
    """Whether native code is used, with the reason."""

    active: bool
    reason: str


def native_status() -> NativeStatus:
    """Decide by the environment variable and by what was built."""
    if os.environ.get("NINELIVES_NATIVE", "1") == "0":
        return NativeStatus(False, "switched off by NINELIVES_NATIVE=0")
    complaint = _complaint()
    return NativeStatus(not complaint, complaint or "all native modules are built and importable")


def native_module(name: str) -> ModuleType | None:
    """One native module, or None if the pure-Python path is in use."""
    return importlib.import_module(name) if native_status().active else None


def native_library(name: str) -> Path | None:
    """The file of one native library, or None if the pure-Python path is in use."""
    return _file_of(name) if native_status().active else None


@cache
def _complaint() -> str:
    """The first missing part of the native code, which is used as a whole or not at all; empty if none is."""
    for name in MODULES:
        try:
            importlib.import_module(name)
        except ImportError as error:
            return f"{name} cannot be imported ({error}); reinstall where a C compiler exists"
    missing = [name for name in LIBRARIES if _file_of(name) is None]
    return f"{missing[0]} is not built; reinstall where a C compiler exists" if missing else ""


def _file_of(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    return Path(spec.origin) if spec is not None and spec.origin else None
