"""Learning curves as text. Knows numbers and characters, measures nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

WIDTH, HEIGHT = 72, 14
MARKS = "#o+*"


def drawn(curves: Mapping[str, Sequence[float]], steps: int, goal: float) -> str:
    """One picture of several curves over the same steps; ``=`` where two of them are on one spot."""
    low, high = _bounds(curves, goal)
    canvas = [[" "] * WIDTH for _ in range(HEIGHT)]
    for column in range(WIDTH):
        canvas[_row(goal, low, high)][column] = "·"
    for mark, curve in zip(MARKS, curves.values(), strict=False):
        for column, value in enumerate(_columns(curve)):
            if not math.isnan(value):
                row = _row(value, low, high)
                canvas[row][column] = "=" if canvas[row][column] in MARKS else mark
    names = {0: f"{high:g}", HEIGHT - 1: f"{low:g}", _row(goal, low, high): f"goal {goal:g}"}
    lines = [f"{names.get(row, ''):>10} │{''.join(cells)}" for row, cells in enumerate(canvas)]
    foot = f"{'':>10} └{'─' * WIDTH}"
    legend = "   ".join(f"{mark} {name}" for mark, name in zip(MARKS, curves, strict=False))
    return "\n".join((*lines, foot, f"{'':>12}0{f'{steps:,} steps':>{WIDTH - 1}}", f"{'':>12}{legend}"))


def _bounds(curves: Mapping[str, Sequence[float]], goal: float) -> tuple[float, float]:
    values = [value for curve in curves.values() for value in curve if not math.isnan(value)]
    low, high = min([*values, goal]), max([*values, goal])
    return (low, high) if high > low else (low, low + 1.0)


def _columns(curve: Sequence[float]) -> list[float]:
    return [curve[min(len(curve) - 1, column * len(curve) // WIDTH)] for column in range(WIDTH)] if curve else []


def _row(value: float, low: float, high: float) -> int:
    return round((HEIGHT - 1) * (high - value) / (high - low))
