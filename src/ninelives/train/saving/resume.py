"""Which checkpoint a run goes on from, and whether the run that goes on is the same run.

Owns these two decisions. Reads checkpoints, changes nothing but the names of damaged ones.
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
"""What may differ when a run goes on: how long, where, how it is watched, and how its processes are run.

``device`` and ``threads`` add numbers in another order: the run goes on well, but no longer bit for bit.
"""

FIXED = ("pool.autoreset", "pool.split", "pool.ready")
"""Of what is free, what decides which rows are learned from, and so may not differ."""


def chosen(checkpoints: Checkpoints, *, previous: bool = False) -> Checkpoint | None:
    """The checkpoint to go on from: the newest, or with ``previous`` the newest that is whole.

    None if the run was ended before it had written its first: then it begins again, and nothing is lost.

    Raises:
        CheckpointError: the newest cannot be used, or none can; says what to do.
    """
    newest = checkpoints.newest()
    if newest is None:
        return None
    if not previous:
        return load(newest)
    whole = checkpoints.previous()
    if whole is None:
        raise CheckpointError(
            f"none of the checkpoints in {checkpoints.directory} is whole; they are kept there as *.damaged. "
            "Start anew with --force, or bring one back from a backup"
        )
    return load(whole)


def check_same(saved: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to go on as another run: both are resolved configurations as plain trees.

    Raises:
        ConfigError: names every setting that differs and may not, with both values.
    """
    before, after = dict(_flat(as_json(saved))), dict(_flat(as_json(now)))
    differing = [
        f"  {key}: {before.get(key)!r} in the checkpoint, {after.get(key)!r} now"
        for key in sorted(before.keys() | after.keys())
        if _is_fixed(key) and before.get(key) != after.get(key)
    ]
    if differing:
        raise ConfigError(
            "a resumed run must go on with the settings it began with, and these differ:\n"
            + "\n".join(differing)
            + "\nLeave them out, or begin a new run from the old weights with --model CHECKPOINT"
        )


def _is_fixed(key: str) -> bool:
    return key in FIXED or not any(key == free or key.startswith(free + ".") for free in FREE)


def _flat(tree: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """``{"a": {"b": 1}}`` as ``("a.b", 1)``; an empty mapping says no more than its absence."""
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", None if isinstance(value, Mapping) else value
