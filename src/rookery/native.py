"""Which of the twins is in use, and why.

``ROOKERY_NATIVE=0`` chooses the pure-Python path; so does a missing compiler at installation. Both behave the same.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from types import ModuleType

NATIVE_MODULES = (
    "rookery.transport._native", "rookery.worker._native", "rookery.pool._native", "rookery.sims._native",
)  # fmt: skip


@dataclass(frozen=True)
class NativeStatus:
    """Whether the native modules are used, with the reason in words."""

    active: bool
    reason: str


def native_status() -> NativeStatus:
    """Decide from the environment variable and from what was built."""
    if os.environ.get("ROOKERY_NATIVE", "1") == "0":
        return NativeStatus(False, "switched off by ROOKERY_NATIVE=0")
    for name in NATIVE_MODULES:
        try:
            importlib.import_module(name)
        except ImportError as error:
            return NativeStatus(False, f"{name} cannot be imported ({error}); reinstall where a C compiler exists")
    return NativeStatus(True, "all native modules are built and importable")


def native_module(name: str) -> ModuleType | None:
    """One native module, or None if the pure-Python path is in use."""
    return importlib.import_module(name) if native_status().active else None
