"""Keeps the files of SB3's ``Monitor`` where your program runs, and whole when a worker is restarted.

A worker runs in a directory of its own, so a ``Monitor`` with a relative path would write there, and the file would go
with the worker. SB3's own vector environments write into the directory of the program. Runs in workers, after the
environment was built; must never import SB3, which whoever uses a ``Monitor`` has done already.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from ninelives.spec.context import current_slot
from ninelives.spec.env import EnvSpec

HEADER_LINES = 2
"""What a ``Monitor`` writes before the first episode: a comment and the names of the columns."""


def with_monitor_files(spec: EnvSpec) -> EnvSpec:
    """The same environments, with the file of a ``Monitor`` among their wrappers in its right place."""

    def build() -> Any:
        env = spec.load()()
        writer = _writer_of(env)
        if writer is not None:
            _keep(writer)
        return env

    build.__name__ = spec.label
    return EnvSpec(build, modules=spec.modules)


def _writer_of(env: Any) -> Any:
    """The open file of a ``Monitor`` among the wrappers, if there is one."""
    while env is not None:
        writer = getattr(env, "__dict__", {}).get("results_writer")
        if writer is not None:
            return writer
        env = getattr(env, "__dict__", {}).get("env")
    return None


def _keep(writer: Any) -> None:
    """Go on in the program's directory: in the file of the slot's last environment, or in a new one."""
    written, here = Path(writer.file_handler.name), Path.cwd().resolve()
    if not written.is_relative_to(here):
        return
    slot = current_slot()
    target = slot.launch_dir / written.relative_to(here)
    goes_on = slot.episodes > 0 and target.exists()
    writer.file_handler.close()
    header = written.read_text().splitlines(keepends=True)[: 0 if goes_on else HEADER_LINES]
    written.unlink()
    target.parent.mkdir(parents=True, exist_ok=True)
    writer.file_handler = target.open("a" if goes_on else "w", newline="\n")
    writer.file_handler.writelines(header)
    writer.file_handler.flush()
    writer.logger = csv.DictWriter(writer.file_handler, writer.logger.fieldnames)
