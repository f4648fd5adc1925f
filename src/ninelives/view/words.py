"""Slots, counts, times and sizes as text, written the same way in every view and message."""

from __future__ import annotations

from collections.abc import Iterable


def slots_in_words(slots: Iterable[int]) -> str:
    """``slot 3`` or ``slots 0-2, 5``."""
    spans: list[list[int]] = []
    for slot in sorted(set(slots)):
        if spans and slot == spans[-1][1] + 1:
            spans[-1][1] = slot
        else:
            spans.append([slot, slot])
    parts = [f"{first}" if first == last else f"{first}-{last}" for first, last in spans]
    single = len(spans) == 1 and spans[0][0] == spans[0][1]
    return f"slot{'' if single else 's'} {', '.join(parts)}"


def times(count: int) -> str:
    """``once``, ``twice``, ``7 times``."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def plural(count: int, noun: str) -> str:
    """``1 fault``, ``3 faults``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def seconds_in_words(seconds: float) -> str:
    """``350 us``, ``1.2 ms``, ``0.35 s``, ``12.0 s``, ``2 min 5 s``, ``1 h 3 min``."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    if seconds < 0.1:
        return f"{seconds * 1e3:.1f} ms"
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def clock_time(seconds: float) -> str:
    """``1:05``, ``2:00:07``."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"


def bytes_in_words(count: float) -> str:
    """``33 MB``, ``1.5 GB``."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
