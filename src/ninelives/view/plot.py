"""A run's learning curve as a PNG file. Needs matplotlib (in the extra ``train``), which is imported late.

Draws on matplotlib's Agg canvas directly: no display is needed, and pyplot's global state stays untouched.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

SIZE_INCHES, DPI = (8.8, 4.8), 100


def write_curve(
    path: Path,
    episodes: Sequence[tuple[float, float]],
    mean: Sequence[tuple[float, float]],
    title: str,
    marks: Sequence[tuple[float, str]] = (),
) -> None:
    """Episodes as dots, their mean as a line, marked moments as vertical lines; (steps, return) each."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    figure = Figure(figsize=SIZE_INCHES, dpi=DPI, layout="constrained")
    axes = figure.add_subplot()
    axes.plot(*_columns(episodes), ".", color="tab:blue", alpha=0.25, markersize=4, label="episode")
    axes.plot(*_columns(mean), color="tab:blue", linewidth=2, label="mean")
    for step, label in marks:
        axes.axvline(step, color="tab:red", linestyle="--", linewidth=1.2, label=label)
    axes.set(title=title, xlabel="steps", ylabel="return")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left")
    FigureCanvasAgg(figure)
    figure.savefig(path, format="png")


def _columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]
