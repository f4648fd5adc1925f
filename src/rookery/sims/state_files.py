"""Snapshots in files: read with the file's name in every refusal, written whole or not at all, never over another."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from rookery.errors import CheckpointError, ConfigError
from rookery.sims.emulator import Identity
from rookery.sims.snapshot import Snapshot

SUFFIX = ".rook"


def read_snapshot(path: Path, expect: Identity | None = None) -> Snapshot:
    """The snapshot in a file; ``expect``: whose it must be.

    Raises:
        CheckpointError: it cannot be read, or is damaged, foreign or newer.
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
    """Write a file that is there whole or not at all.

    Raises:
        ConfigError: there is such a file already, or its directory is not there.
    """
    write_file(path, snapshot.to_bytes(compress=True), overwrite=overwrite)


def write_file(path: Path, data: bytes, *, overwrite: bool) -> None:
    """Write bytes to a file, through a temporary one beside it."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(name, 0o644)
        if overwrite:
            os.replace(name, path)
        else:
            os.link(name, path)
    except FileExistsError:
        raise ConfigError(f"{path}: is there already; give another name, or --overwrite") from None
    finally:
        Path(name).unlink(missing_ok=True)
