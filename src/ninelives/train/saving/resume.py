"""Which checkpoint a run is resumed from, and whether its settings allow that.

Owns these two decisions. Reads checkpoints, and changes nothing but the names of damaged ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ninelives.errors import CheckpointError, ConfigError
from ninelives.train.saving.checkpoint import Checkpoint, Checkpoints, as_json, load

FREE = (
    "timesteps",
    "run_dir",
    "resume",
    "resume_previous",
    "force",
    "model",
    "checkpoint_every",
    "keep_last",
    "keep_best",
    "visualize",
    "device",
    "threads",
    "log",
    "pool",
)
"""Settings that may change when a run is resumed: its length, place, logs, and how its processes are run.

``device`` and ``threads`` change the order of additions: the run continues correctly, but no longer bit for bit.
"""

FIXED = ("pool.autoreset", "pool.split", "pool.ready")
"""Exceptions to ``FREE``: they decide which rows are learned from, so they must not change."""


def chosen(checkpoints: Checkpoints, *, previous: bool = False) -> Checkpoint | None:
    """The checkpoint to resume from: the newest, or with ``previous`` the newest intact one.

    None if the run ended before its first checkpoint: then it starts again from the beginning.

    Raises:
        CheckpointError: the newest cannot be used, or with ``previous`` none can.
    """
    newest = checkpoints.newest()
    if newest is None:
        return None
    if not previous:
        return load(newest)
    intact = checkpoints.previous()
    if intact is None:
        raise CheckpointError(
            f"all checkpoints in {checkpoints.directory} are damaged; they are kept there as *.damaged. "
            "Start the run again with --force, or restore a checkpoint from a backup"
        )
    return load(intact)


def check_same(saved: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to resume with other settings; both arguments are resolved configurations as plain trees.

    Raises:
        ConfigError: names each setting that differs but must not, with both values.
    """
    before, after = dict(_flat(as_json(saved))), dict(_flat(as_json(now)))
    differing = [
        f"  {key}: {before.get(key)!r} in the checkpoint, {after.get(key)!r} now"
        for key in sorted(before.keys() | after.keys())
        if _is_fixed(key) and before.get(key) != after.get(key)
    ]
    if differing:
        raise ConfigError(
            "a resumed run must keep its settings, but these differ:\n"
            + "\n".join(differing)
            + "\nRemove them, or start a new run from the old weights with --model CHECKPOINT"
        )


def _is_fixed(key: str) -> bool:
    return key in FIXED or not any(key == free or key.startswith(free + ".") for free in FREE)


def _flat(tree: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """``{"a": {"b": 1}}`` as ``("a.b", 1)``; an empty mapping counts as absent."""
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", None if isinstance(value, Mapping) else value
