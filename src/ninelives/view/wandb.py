"""Scalars to Weights & Biases. Needs the extra ``wandb``; imported only when somebody asks for it."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def is_installed() -> bool:
    """Whether there is a client."""
    return importlib.util.find_spec("wandb") is not None


class WandbRun:
    """One run there. The name of the run's directory is its id, so a resumed run goes on as the same one."""

    def __init__(self, project: str, run_dir: Path, config: Mapping[str, Any]) -> None:
        import wandb  # type: ignore[import-untyped, import-not-found, unused-ignore]

        self._run = wandb.init(
            project=project, name=run_dir.name, id=run_dir.name, resume="allow", dir=str(run_dir), config=dict(config)
        )

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Values by name, all of the same step; steps the service has already are ignored by it."""
        self._run.log(dict(values), step=step)

    def flush(self) -> None:
        """The client sends by itself."""

    def close(self) -> None:
        """Send the rest and end the run."""
        self._run.finish()
