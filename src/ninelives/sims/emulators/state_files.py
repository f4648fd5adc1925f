"""Snapshots in files: every read error names the file, and writes are atomic and never overwrite by accident."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from ninelives.errors import CheckpointError, ConfigError
from ninelives.sims.emulators.machine import Identity
from ninelives.sims.emulators.snapshot import Snapshot

SUFFIX = ".rook"


def read_snapshot(path: Path, expect: Identity | None = None) -> Snapshot:
    """Read a snapshot; ``expect`` is the game and emulator it must belong to.

    Raises:
        CheckpointError: it cannot be read, is damaged or from a newer version, or belongs to another game or emulator.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path}: the state file cannot be read: {error.strerror}") from error
    try:
        return Snapshot.from_bytes(data, expect)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from error


def write_snapshot(path: Path, snapshot: Snapshot, *, overwrite: bool = False) -> None:
    """Write a snapshot atomically.

    Raises:
        ConfigError: the file exists already, or its directory does not exist.
    """
    write_file(path, snapshot.to_bytes(compress=True), overwrite=overwrite)


def write_file(path: Path, data: bytes, *, overwrite: bool) -> None:
    """Write bytes to a file atomically, through a temporary file beside it.

    Raises:
        ConfigError: the file exists already, or it cannot be written; then nothing has changed.
    """
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(unfinished, "xb") as file:
            file.write(data)
        _put(unfinished, path, overwrite)
    except FileExistsError:
        raise ConfigError(f"{path}: already exists; give another name, or --overwrite") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink()


def _put(unfinished: Path, path: Path, overwrite: bool) -> None:
    """Give the file its final name; unlike a rename, a link never replaces an existing file."""
    try:
        if not overwrite:
            os.link(unfinished, path)
    except PermissionError:  # a file system without links
        if path.exists():
            raise FileExistsError from None
        overwrite = True
    if overwrite:
        os.replace(unfinished, path)
