"""Resolves the user's file names inside a worker, whose working directory is another one."""

from __future__ import annotations

from pathlib import Path

from ninelives.errors import ConfigError, UsageError
from ninelives.spec.context import current_slot


def user_path(path: str | Path) -> Path:
    """A path as the user meant it: relative to the directory the program was started in.

    Raises:
        ConfigError: it is not a path.
    """
    if not isinstance(path, str | Path):
        raise ConfigError(f"{path!r} must be a file name")
    try:
        meant = Path(path).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"{path}: {error}; give the full path") from None
    try:
        return current_slot().launch_dir / meant
    except UsageError:
        return meant
