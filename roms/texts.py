"""Reads the texts in which drawings and maps are written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def sections(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Every ``= title`` of a text with the lines below it; ``;`` begins a comment, empty lines are left out."""
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
