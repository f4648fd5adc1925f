"""Reads the text files that contain graphics and maps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def sections(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Every ``= title`` of a file with the lines below it; ``;`` starts a comment, empty lines are skipped."""
    title, lines = "", []
    for line in path.read_text().splitlines():
        if line.startswith("= "):
            if title:
                yield title, lines
            title, lines = line[2:], []
        elif line.strip() and line[0] != ";":
            lines.append(line)
    if title:
        yield title, lines
