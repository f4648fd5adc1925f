"""Sends scalars to Weights & Biases. Needs the extra ``wandb``, which is imported only when it is used."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def is_installed() -> bool:
    """Whether the wandb client is installed."""
    return importlib.util.find_spec("wandb") is not None


class WandbRun:
    """One W&B run. The name of the run directory is its id, so a resumed run continues the same W&B run."""

    def __init__(self, project: str, run_dir: Path, config: Mapping[str, Any]) -> None:
        import wandb  # type: ignore[import-untyped, import-not-found, unused-ignore]

        self._run = wandb.init(
            project=project, name=run_dir.name, id=run_dir.name, resume="allow", dir=str(run_dir), config=dict(config)
        )

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Send values by name, all of the same step; W&B ignores steps that it already has."""
        self._run.log(dict(values), step=step)

    def flush(self) -> None:
        """Nothing to do: the client sends by itself."""

    def close(self) -> None:
        """Send the rest and finish the run."""
        self._run.finish()
