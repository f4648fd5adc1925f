"""Judges the memory of workers from their sizes over time. Pure: reads no process, no clock."""

from __future__ import annotations


def memory_limit(reached: float) -> int:
    """A limit for a worker that grew to this size: below it, so that it takes effect before the size is reached."""
    return int(0.8 * reached)
