"""Checkpoints of a run, written so that a kill at any moment damages none of the existing ones.

::

    checkpoints/  step-000000010000.ckpt   best so far: kept
                  step-000000080000.ckpt ┐
                  step-000000090000.ckpt │ the last three
                  step-000000100000.ckpt ┘
                  .step-000000110000.ckpt.tmp   being written; renamed once it is on disk

Owns the directory: names, which checkpoints are kept and which are deleted. Must never interpret the state, which is
the session's, nor the bytes, which are the container's.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
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
    """One checkpoint, read and verified.

    Attributes:
        path: the file it was read from.
        step: environment steps at which it was written.
        score: what ``keep_best`` compares; None if it was not known.
        config: the resolved configuration of the run.
        state: the session's complete state; ``state["weights"]`` are the network's weights.
        weights_sha256: hash of the network's weights.
    """

    path: Path
    step: int
    score: float | None
    config: dict[str, Any]
    state: dict[str, Any]
    weights_sha256: str
    _pool: bytes | None = None

    def pool(self) -> Any:
        """The state of the pool, or None. It is a pickle: read it only from checkpoints that you trust."""
        with self.understood():
            return None if self._pool is None else pickle.loads(self._pool)

    def understood(self) -> AbstractContextManager[None]:
        """Around code that takes the state apart: a wrong value becomes a CheckpointError that names the file."""
        return container.understood(self.path)


class Checkpoints:
    """The checkpoints of one run.

    Args:
        directory: created with the first checkpoint.
        keep_last: number of newest checkpoints to keep; more than one, because a disk can damage the newest.
        keep_best: whether to keep the one with the highest score too.
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
        """Write a checkpoint and delete those that are no longer kept; returns its path.

        Raises:
            CheckpointError: it cannot be written; the older ones are untouched.
        """
        path = self.directory / f"step-{step:012d}{SUFFIX}"
        metadata = {
            "step": step,
            "score": score,
            "config": as_json(config),
            "weights_sha256": sha256_of(state.get("weights", {})),
            "ninelives": ninelives.__version__,
            "written": time.time(),
        }
        tree = {"learner": dict(state), "pool": None if pool is None else pickle.dumps(pool, pickle.HIGHEST_PROTOCOL)}
        data = container.packed(metadata, tree)
        try:
            self._delete_unfinished()
            _replace(path, data)
        except OSError as error:
            raise CheckpointError(
                f"checkpoint {path} ({len(data)} bytes) cannot be written: {error.strerror or error}. "
                "The older ones are untouched: free some space, then continue with --resume"
            ) from error
        self._scores[path] = score
        self._prune()
        return path

    def all(self) -> list[Path]:
        """Every checkpoint, oldest first, intact or not."""
        found = [(int(match[1]), path) for path in self._files() if (match := _NAME.fullmatch(path.name))]
        return [path for _, path in sorted(found)]

    def newest(self) -> Path | None:
        """The newest one, intact or not; None if there is none."""
        return next(reversed(self.all()), None)

    def previous(self) -> Path | None:
        """The newest intact one. Newer ones that are damaged are renamed to ``*.damaged`` and no longer listed.

        Raises:
            CheckpointError: a newer one cannot be read, or a newer version wrote it; it keeps its name.
        """
        for path in reversed(self.all()):
            if _is_intact(path):
                return path
            path.rename(path.with_name(path.name + ".damaged"))
        return None

    def newest_config(self) -> tuple[Path, dict[str, Any]] | None:
        """The newest intact one with the configuration in it; None if there is none. Needs no torch."""
        for path in reversed(self.all()):
            try:
                return path, _Metadata.read(path).config
            except CheckpointError:
                continue
        return None

    def best(self) -> Path | None:
        """The intact one with the highest score, the newest of equals; None if none has a score."""
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
                self._scores[path] = _Metadata.read(path).score
            except CheckpointError:
                self._scores[path] = None
        score = self._scores[path]
        return None if score is None or score != score else score

    def _files(self) -> list[Path]:
        try:
            return list(self.directory.iterdir())
        except FileNotFoundError:
            return []

    def _delete_unfinished(self) -> None:
        """Delete what a kill left half written. A run directory has one trainer, so no other process writes here."""
        self.directory.mkdir(parents=True, exist_ok=True)
        for path in self.directory.glob(f".step-*{SUFFIX}.tmp"):
            path.unlink(missing_ok=True)


def load(path: str | Path) -> Checkpoint:
    """Read a checkpoint.

    Raises:
        CheckpointError: the file is missing, not a checkpoint, newer than this version, truncated or damaged.
    """
    path = Path(path)
    contents = container.read(path)
    with container.understood(path):
        known = _Metadata.of(contents.metadata)
        match contents.tree:
            case {"learner": dict(state), "pool": (None | bytes()) as pool} if isinstance(state.get("weights"), dict):
                return Checkpoint(path, known.step, known.score, known.config, state, known.weights_sha256, pool)
        raise ValueError("it holds no learner with weights, or a pool that is not bytes")


def weights_sha256(path: str | Path) -> str:
    """The hash of the weights in an intact checkpoint; needs no torch."""
    return _Metadata.read(Path(path)).weights_sha256


@dataclass(frozen=True)
class _Metadata:
    step: int
    score: float | None
    config: dict[str, Any]
    weights_sha256: str

    @classmethod
    def read(cls, path: Path) -> _Metadata:
        raw = container.read_metadata(path)
        with container.understood(path):
            return cls.of(raw)

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> _Metadata:
        match raw:
            case {
                "step": int(step),
                "score": (None | int() | float()) as score,
                "config": dict(config),
                "weights_sha256": str(digest),
            } if step >= 0:
                return cls(step, None if score is None else float(score), config, digest)
        raise ValueError("step, score, config or weights_sha256 is missing in its metadata or of a wrong type")


def _is_intact(path: Path) -> bool:
    try:
        load(path)
    except container.DamagedError:
        return False
    return True


def as_json(tree: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration as JSON returns it; a value that JSON cannot hold is replaced by the name of its type."""
    plain: dict[str, Any] = json.loads(json.dumps(dict(tree), default=lambda value: f"<{type(value).__qualname__}>"))
    return plain


def sha256_of(weights: Mapping[str, Any]) -> str:
    """One hash of a network's weights: names, dtypes, shapes and every bit."""
    return container.sha256_of_tree(dict(sorted(weights.items())))


def _replace(path: Path, data: bytes) -> None:
    """Write a file completely or not at all, even if the machine loses power."""
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
