"""Curves in plain characters. Pure: numbers in, lines of text out."""

from __future__ import annotations

from collections.abc import Sequence

BLOCKS = " ▁▂▃▄▅▆▇█"
"""Eighths of a cell."""


def sparkline(values: Sequence[float]) -> str:
    """One line of blocks; the lowest value is the lowest block."""
    low, span = min(values, default=0.0), (max(values, default=0.0) - min(values, default=0.0)) or 1.0
    return "".join(BLOCKS[1 + round(7 * (value - low) / span)] for value in values)


def chart(points: Sequence[tuple[float, float]], width: int = 64, height: int = 10) -> list[str]:
    """A filled curve with axes; ``points`` are (x, y), sorted by x."""
    if not points:
        return ["nothing to draw yet"]
    columns = resample(points, width)
    low, high = min(0.0, *columns), max(0.0, *columns)
    span = (high - low) or 1.0
    eighths = [round(8 * height * (value - low) / span) for value in columns]
    labels = {height - 1: _short(high), 0: _short(low)}
    margin = max(len(label) for label in labels.values())
    lines = []
    for row in reversed(range(height)):
        cells = "".join(BLOCKS[min(8, max(0, eighth - 8 * row))] for eighth in eighths)
        lines.append(f"{labels.get(row, ''):>{margin}} ┤{cells}".rstrip())
    first, last = _short(points[0][0]), _short(points[-1][0])
    lines.append(f"{'':>{margin}} └{'─' * width}")
    lines.append(f"{'':>{margin}}  {first}{last:>{width - len(first)}}")
    return lines


def resample(points: Sequence[tuple[float, float]], width: int) -> list[float]:
    """The mean of the points in each of ``width`` equal parts of x; an empty part repeats the value before it."""
    first, last = points[0][0], points[-1][0]
    span = (last - first) or 1.0
    sums, counts = [0.0] * width, [0] * width
    for x, y in points:
        column = min(width - 1, int(width * (x - first) / span))
        sums[column] += y
        counts[column] += 1
    columns, value = [], points[0][1]
    for total, count in zip(sums, counts, strict=True):
        value = total / count if count else value
        columns.append(value)
    return columns


def _short(value: float) -> str:
    """``1.2M``, ``35k``, ``195``, ``-0.25``."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= 10 * size or (abs(value) >= size and value % (size / 10) == 0):
            return f"{value / size:.3g}{unit}"
    return f"{value:.4g}"
