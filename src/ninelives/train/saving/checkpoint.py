"""Checkpoints of a run: written so that a kill at any moment costs none of those that are already there.

::

    checkpoints/  step-000000010000.ckpt   best so far: stays
                  step-000000080000.ckpt ┐
                  step-000000090000.ckpt │ the last three
                  step-000000100000.ckpt ┘
                  .step-000000110000.ckpt.tmp   being written; becomes a checkpoint by one rename, after it is on disk

Owns the directory: names, what is kept, what is thrown away. What is in a state is the learner's business, what the
bytes look like the container's.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ninelives
from ninelives.errors import CheckpointError, ConfigError
from ninelives.train.saving import container

SUFFIX = ".ckpt"
_NAME = re.compile(r"step-(\d{12,})\.ckpt")


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint, read and found whole.

    Attributes:
        path: where it was read.
        step: environment steps at which it was taken.
        score: what ``keep_best`` compares; None if it was not known yet.
        config: the resolved configuration of the run.
        state: the learner's complete state; ``state["weights"]`` is the network's.
        weights_sha256: of the network's weights.
    """

    path: Path
    step: int
    score: float | None
    config: dict[str, Any]
    state: dict[str, Any]
    weights_sha256: str
    _pool: bytes | None = None

    def pool(self) -> Any:
        """The state of the pool, or None. It is a pickle: take it only from checkpoints that you trust."""
        return None if self._pool is None else pickle.loads(self._pool)


class Checkpoints:
    """The checkpoints of one run.

    Args:
        directory: made when the first one is written.
        keep_last: how many of the newest stay; more than one, because a disk can damage the newest.
        keep_best: whether the one with the highest score stays too.
    """

    def __init__(self, directory: str | Path, keep_last: int = 3, keep_best: bool = True) -> None:
        if keep_last < 1:
            raise ConfigError(f"keep_last={keep_last} must be at least 1")
        self.directory, self._keep_last, self._keep_best = Path(directory), keep_last, keep_best
        self._scores: dict[Path, float | None] = {}

    def write(
        self,
        state: Mapping[str, Any],
        *,
        step: int,
        config: Mapping[str, Any],
        pool: object | None = None,
        score: float | None = None,
    ) -> Path:
        """Write one and throw away what is no longer kept; returns where it is.

        Raises:
            CheckpointError: the disk refuses; the older ones are untouched.
        """
        path = self.directory / f"step-{step:012d}{SUFFIX}"
        facts = {
            "step": step,
            "score": score,
            "config": as_json(config),
            "weights_sha256": sha256_of(state.get("weights", {})),
            "ninelives": ninelives.__version__,
            "written": time.time(),
        }
        tree = {"learner": dict(state), "pool": None if pool is None else pickle.dumps(pool, pickle.HIGHEST_PROTOCOL)}
        data = container.packed(facts, tree)
        try:
            self._forget_unfinished()
            _replace(path, data)
        except OSError as error:
            raise CheckpointError(
                f"checkpoint {path} ({len(data)} bytes) cannot be written: {error.strerror or error}. "
                "The older ones are untouched: make room, then go on with --resume"
            ) from error
        self._scores[path] = score
        self._prune()
        return path

    def all(self) -> list[Path]:
        """Every checkpoint, oldest first, whether or not it is whole."""
        found = [(int(match[1]), path) for path in self._files() if (match := _NAME.fullmatch(path.name))]
        return [path for _, path in sorted(found)]

    def newest(self) -> Path | None:
        """The newest one, unread; None if there is none."""
        return next(reversed(self.all()), None)

    def previous(self) -> Path | None:
        """The newest one that is whole. Newer ones that are not are set aside as ``*.damaged``, and named no more."""
        for path in reversed(self.all()):
            if self._is_whole(path):
                return path
            path.rename(path.with_name(path.name + ".damaged"))
        return None

    def best(self) -> Path | None:
        """The whole one with the highest score, the newest of equals; None if none has one."""
        scored = [(score, path) for path in self.all() if (score := self._score(path)) is not None]
        return max(scored)[1] if scored else None

    def _prune(self) -> None:
        paths = self.all()
        kept = set(paths[-self._keep_last :])
        if self._keep_best and (best := self.best()) is not None:
            kept.add(best)
        for path in paths:
            if path not in kept:
                path.unlink(missing_ok=True)
                self._scores.pop(path, None)

    def _score(self, path: Path) -> float | None:
        """Read once: a checkpoint never changes."""
        if path not in self._scores:
            try:
                self._scores[path] = container.read_facts(path)["score"]
            except CheckpointError:
                self._scores[path] = None
        score = self._scores[path]
        return None if score is None or score != score else score

    def _is_whole(self, path: Path) -> bool:
        try:
            container.read_facts(path)
        except CheckpointError:
            return False
        return True

    def _files(self) -> list[Path]:
        try:
            return list(self.directory.iterdir())
        except FileNotFoundError:
            return []

    def _forget_unfinished(self) -> None:
        """What a kill left half written. A run directory belongs to one trainer, so nobody else is writing here."""
        self.directory.mkdir(parents=True, exist_ok=True)
        for path in self.directory.glob(f".step-*{SUFFIX}.tmp"):
            path.unlink(missing_ok=True)


def load(path: str | Path) -> Checkpoint:
    """Read a checkpoint.

    Raises:
        CheckpointError: missing, foreign, newer, truncated or damaged; each says which, and what to do.
    """
    path = Path(path)
    contents = container.read(path)
    facts, tree = contents.facts, contents.tree
    return Checkpoint(
        path, facts["step"], facts["score"], facts["config"], tree["learner"], facts["weights_sha256"], tree["pool"]
    )


def weights_sha256(path: str | Path) -> str:
    """The hash of the weights in a checkpoint that is whole; needs no torch."""
    digest: str = container.read_facts(Path(path))["weights_sha256"]
    return digest


def as_json(tree: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration as JSON gives it back; what JSON has no word for is named by its type, which stays the same."""
    plain: dict[str, Any] = json.loads(json.dumps(dict(tree), default=lambda value: f"<{type(value).__qualname__}>"))
    return plain


def sha256_of(weights: Mapping[str, Any]) -> str:
    """One hash of a network's weights: names, dtypes, shapes and every bit."""
    return container.sha256_of_tree(dict(sorted(weights.items())))


def _replace(path: Path, data: bytes) -> None:
    """Put a file there as a whole or not at all, also if the machine loses power."""
    unfinished = path.with_name(f".{path.name}.tmp")
    try:
        with unfinished.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
