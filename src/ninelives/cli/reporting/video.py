"""A video of one slot, from image observations or ``render()``, for ``ninelives test --video``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from ninelives.errors import ConfigError
from ninelives.pool.batch import Batch
from ninelives.pool.pool import Pool
from ninelives.spec.env import EnvSpec
from ninelives.view.half_blocks import Image
from ninelives.view.mosaic import picture_of, resized, row_of

LONGEST = 3000
"""Most frames of a video: 100 seconds. All of them are held in memory."""

SMALLEST = 240
"""Pictures with fewer lines than this are enlarged."""

DEFAULT_FPS = 30


def is_gymnasium_id(spec: EnvSpec) -> bool:
    """Whether ``gymnasium.make`` builds it and so accepts a ``render_mode``; a factory may not."""
    return isinstance(spec.env, str) and re.search(r"-v\d+$", spec.env) is not None


class VideoRecorder:
    """Collects the pictures of slot 0 from the batches of an evaluation."""

    def __init__(self, path: Path) -> None:
        self._path, self._frames, self._fps = path, list[Image](), DEFAULT_FPS

    def __call__(self, pool: Pool, batch: Batch) -> None:
        """Keep the picture of slot 0, if it is in the batch."""
        if len(self._frames) >= LONGEST or 0 not in batch.slots:
            return
        self._fps = min(60, int(pool.metadata.get("render_fps", DEFAULT_FPS)))
        picture = picture_of(pool.call("render", slots=[0])[0]) if pool.render_mode == "rgb_array" else None
        if picture is None:
            picture = picture_of(row_of(batch.obs, int(np.flatnonzero(batch.slots == 0)[0])))
        if picture is None:
            raise ConfigError("--video: no pictures: observations are not images, and render() returns none")
        self._frames.append(picture.copy())

    def write(self) -> str:
        """Write the file and return a line that describes it."""
        import imageio.v3 as imageio

        frames = [_enlarged(frame) for frame in self._frames]
        options: dict[str, Any] = {"fps": self._fps}
        if self._path.suffix == ".gif":
            options = {"duration": 1000 / self._fps, "loop": 0}
        imageio.imwrite(self._path, np.stack(frames), **options)
        return f"video: {self._path} ({len(frames)} frames at {self._fps} per second)"


def _enlarged(frame: Image) -> Image:
    factor = max(1, -(-SMALLEST // frame.shape[0]))
    return resized(frame, factor * frame.shape[0] // 2 * 2, factor * frame.shape[1] // 2 * 2)
