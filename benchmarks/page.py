"""Pieces of a results page: tables, lists, versions. Knows text, measures nothing."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from importlib import metadata

PACKAGES = ("ninelives", "gymnasium", "stable-baselines3", "torch", "numpy")


def table(head: Sequence[str], align: str, rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown; ``align`` has an ``l`` or ``r`` for each column."""
    rule = ["---" if side == "l" else "--:" for side in align]
    cleaned = ([cell.replace("|", "/").replace("\n", " ") for cell in row] for row in rows)
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *cleaned))


def bullets(pairs: Iterable[tuple[str, str]]) -> str:
    """A list of facts."""
    return "\n".join(f"- {key}: {value}" for key, value in pairs)


def spread(values: Sequence[float], form: str) -> tuple[str, str]:
    """The median, and the least and greatest in brackets."""
    return f"{statistics.median(values):{form}}", f"({min(values):{form}} to {max(values):{form}})"


def versions(packages: Sequence[str] = PACKAGES) -> dict[str, str]:
    """Of every package that is compared."""
    found = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found
