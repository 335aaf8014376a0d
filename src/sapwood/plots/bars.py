"""Bar charts of counts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sapwood.errors import shortened
from sapwood.plots.pictures import COLOURS, save_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Maximum number of bars.
MOST_BARS = 40


def draw_bars(names: Sequence[str], values: Sequence[float], path: str | Path, *, axis: str, title: str = "") -> None:
    """Draw horizontal bars, the first on top, at most `MOST_BARS`; the suffix of the file chooses the format."""
    names, values = [shortened(name) for name in names[:MOST_BARS]], list(values[:MOST_BARS])

    def make() -> Figure:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 0.8 + 0.22 * max(len(names), 1)), layout="constrained")
        axes = figure.subplots()
        axes.barh(range(len(names)), values, color=COLOURS[0], height=0.7)
        axes.set_yticks(range(len(names)), labels=names)
        axes.invert_yaxis()
        axes.grid(visible=True, axis="x")
        axes.grid(visible=False, axis="y")
        axes.set_xlabel(axis)
        if title:
            axes.set_title(shortened(title), loc="left")
        return figure

    save_picture(path, make)
