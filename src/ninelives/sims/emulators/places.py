"""Where the user's files are, told from inside a worker, whose own directory is another."""

from __future__ import annotations

from pathlib import Path

from ninelives.errors import ConfigError, UsageError
from ninelives.spec.context import current_slot


def here(path: str | Path) -> Path:
    """A path as the user meant it: relative to the directory the program was started in.

    Raises:
        ConfigError: not a path.
    """
    if not isinstance(path, str | Path):
        raise ConfigError(f"{path!r} must be the name of a file")
    try:
        meant = Path(path).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"{path}: {error}; write the directory out") from None
    try:
        return current_slot().launch_dir / meant
    except UsageError:
        return meant
