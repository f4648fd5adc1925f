"""Loads every instance of a core from a private copy of its file, so that no mutable data is shared. Knows no games.

All state of a libretro core is static. Two instances of one file are one machine; of two files they are two. The copy
is deleted as soon as it is loaded: the system keeps it while it is mapped. If a core ends the process while it is
loaded, its copy stays until the directory is removed.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import tempfile
from _ctypes import dlclose
from pathlib import Path

from ninelives.errors import EmulatorError
from ninelives.sims.libretro import elf, mute_audio, shared_text
from ninelives.sims.libretro.api import API_VERSION, declare

MISSING = re.compile(r"^(?P<name>[^\s:/]+\.so[^\s:/]*): cannot open shared object file")
MOST_DEPENDENCIES = 16

_kept: dict[Path, ctypes.CDLL] = {}
"""Libraries beside the cores that cores depend on; loaded once for all instances."""


def load(path: Path, place: Path) -> ctypes.CDLL:
    """A private instance of the core in ``path``; ``place`` is a directory for its copy.

    Raises:
        EmulatorError: the file is missing or damaged, or it is not a libretro core.
    """
    library = private(path, place, "core")
    try:
        declare(library)
        version = library.retro_api_version()
    except AttributeError as error:
        unload(library)
        raise EmulatorError(f"{path} is not a libretro core: {error}") from None
    if version != API_VERSION:
        unload(library)
        raise EmulatorError(f"{path} has version {version} of libretro's interface; only {API_VERSION} is supported")
    return library


def private(path: Path, place: Path, kind: str) -> ctypes.CDLL:
    """A private instance of any library; ``kind`` is part of the name of its copy.

    Raises:
        EmulatorError: the file is missing or damaged, or no copy of it can be made in ``place``.
    """
    data = _whole_file(path)
    descriptor, copy = tempfile.mkstemp(prefix=f"ninelives-{kind}-{path.stem}-", suffix=path.suffix, dir=place)
    try:
        _write(descriptor, data, copy)
        library = _open(copy, path)
        shared_text.share(copy, path, library._handle)
        return library
    finally:
        os.unlink(copy)


def unload(library: ctypes.CDLL) -> None:
    """Unload a private instance; it must not be used afterwards."""
    shared_text.forget(library._handle)  # first: after dlclose another thread may get the same handle
    dlclose(library._handle)


def _whole_file(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise EmulatorError(f"cannot read the core {path}: {error.strerror}") from None
    complaint = elf.complaint_about(data) if sys.platform == "linux" else None
    if complaint:
        raise EmulatorError(f"{path} cannot be loaded: {complaint}. Install it again, or use another (ninelives cores)")
    return data


def _write(descriptor: int, data: bytes, copy: str) -> None:
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            for at, code in mute_audio.stubs(data).items():
                file.seek(at)
                file.write(code)
    except OSError as error:
        place = os.path.dirname(copy)
        raise EmulatorError(f"the copy of a core cannot be written to {place}: {error.strerror}; set TMPDIR") from None


def _open(copy: str, path: Path) -> ctypes.CDLL:
    """Load the copy; a missing dependency is loaded from the directory of the original."""
    for _ in range(MOST_DEPENDENCIES):
        try:
            return ctypes.CDLL(copy, mode=os.RTLD_LOCAL | os.RTLD_NOW)
        except OSError as error:
            missing = MISSING.match(str(error))
            beside = path.resolve().parent / missing["name"] if missing else None
            if beside is None or beside in _kept or not beside.exists():
                words = str(error).replace(copy, path.name)
                raise EmulatorError(_refusal(path, words, os.path.dirname(copy))) from None
            _keep(beside)
    raise EmulatorError(f"{path} needs more than {MOST_DEPENDENCIES} libraries from its directory")


def _keep(path: Path) -> None:
    try:
        _kept[path] = ctypes.CDLL(str(path), mode=os.RTLD_GLOBAL | os.RTLD_NOW)
    except OSError as error:
        raise EmulatorError(f"{path}, which a core needs, cannot be loaded: {error}") from None


def _refusal(path: Path, error: str, place: str) -> str:
    if "failed to map segment" in error:
        return f"{path} cannot be run from {place}: it does not allow executable files; set TMPDIR ({error})"
    return f"{path} cannot be loaded: {error}"
