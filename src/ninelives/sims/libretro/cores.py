"""Finds libretro cores, and explains how to install one if there is none. Loads nothing.

Search order: the directories and files in ``NINELIVES_CORES``, the distribution's directory for cores, the cores that
come with ``stable-retro``. The first core of a name wins.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ninelives.errors import EmulatorError, NinelivesWarning
from ninelives.sims.emulators.user_paths import user_path

VARIABLE = "NINELIVES_CORES"
SUFFIX = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
ENDING = f"_libretro{SUFFIX}"
STABLE_RETRO = "stable_retro"
PREFIXES = (Path("/usr/local/lib"), Path("/usr/lib"), Path("/usr/lib64"), Path("/opt/homebrew/lib"))

Source = Literal["argument", "environment", "distribution", "stable-retro"]

DEBIAN = {"mgba", "nestopia", "gambatte"}
"""Cores that Debian and its derivatives package as ``libretro-NAME``."""


@dataclass(frozen=True)
class FoundCore:
    """A core's file and how it was found."""

    name: str
    path: Path
    source: Source


def found_cores(environ: Mapping[str, str] = os.environ) -> list[FoundCore]:
    """Every core on this machine, in search order; several may have the same name."""
    found: dict[tuple[str, Path], FoundCore] = {}
    for core in _search(environ):
        found.setdefault((core.name, core.path.resolve()), core)  # a link may give a core a second name
    return list(found.values())


def find_core(wanted: str | Path, environ: Mapping[str, str] = os.environ) -> FoundCore:
    """The core of a name like ``mgba``, or the file at a path.

    Raises:
        EmulatorError: it was not found; the message says how to install it.
    """
    name = os.fspath(wanted)
    if name.endswith(SUFFIX) or os.sep in name:
        path = user_path(name)
        if not os.path.isfile(path):
            raise EmulatorError(
                f"core={name!r}: there is no such file, or it cannot be read. `ninelives cores` lists those installed"
            )
        return FoundCore(name_of(path), path, "argument")
    found = found_cores(environ)
    for core in found:
        if core.name == name:
            return core
    raise EmulatorError(missing_core((name,), sorted({core.name for core in found})))


def missing_core(wanted: tuple[str, ...], found: list[str]) -> str:
    """The message for a missing core: what was found instead, and the commands that install it."""
    ways = ["pip install 'ninelives[cores]'"]
    ways += [f"apt-get install libretro-{name}" for name in wanted if name in DEBIAN]
    ways += ["pip install 'ninelives[nes]'"] * ("cynes" in wanted)
    ways.append(f"{VARIABLE}=/directory/with/{wanted[0]}{ENDING}")
    return "\n".join(
        [
            f"no core named {' or '.join(wanted)} was found (found: {', '.join(found) or 'none'}). Any of these helps:",
            *(f"  {way}" for way in ways),
        ]
    )


def _search(environ: Mapping[str, str]) -> Iterator[FoundCore]:
    for place in filter(None, environ.get(VARIABLE, "").split(os.pathsep)):
        path = user_path(place)
        if not os.path.exists(path):
            message = f"{VARIABLE} names {path}, which does not exist or cannot be read; other cores may be used"
            warnings.warn(message, NinelivesWarning, stacklevel=4)
        yield from [FoundCore(name_of(path), path, "environment")] if path.is_file() else _in(path, "environment")
    for directory in _distribution():
        yield from _in(directory, "distribution")
    stable_retro = importlib.util.find_spec(STABLE_RETRO)
    for place in (stable_retro and stable_retro.submodule_search_locations) or ():
        yield from _in(Path(place) / "cores", "stable-retro")


def _distribution() -> Iterator[Path]:
    tuple_ = sysconfig.get_config_var("MULTIARCH")
    for prefix in PREFIXES:
        if tuple_:
            yield prefix / tuple_ / "libretro"
        yield prefix / "libretro"


def _in(directory: Path, source: Source) -> list[FoundCore]:
    return [FoundCore(name_of(path), path, source) for path in sorted(directory.glob(f"*{ENDING}")) if path.is_file()]


def name_of(path: Path) -> str:
    """The name of the core in a file: ``mgba`` for ``mgba_libretro.so``."""
    return path.name.removesuffix(SUFFIX).removesuffix("_libretro")
