"""Finds what Ninelives knows about a simulator package, by the package's name.

The worker is generic: knowledge about one simulator lives in ``sims`` and is imported only where an environment of that
simulator was built.
"""

from __future__ import annotations

import importlib
from typing import Any

from ninelives.spec.snapshots import SimulatorSupport

_MODULES = {"ale_py": "ninelives.sims.atari"}
"""By the package that defines the innermost environment's class: the module whose ``SUPPORT`` knows it."""


def support_for(env: Any) -> SimulatorSupport | None:
    """The support for an innermost environment; None for most."""
    module = _MODULES.get(type(env).__module__.partition(".")[0])
    if module is None:
        return None
    support: SimulatorSupport = importlib.import_module(module).SUPPORT
    return support
