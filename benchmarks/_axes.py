"""Axes of pictures in which errors fall along straight lines, and the slopes of these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# 1, 2 and 5 times the powers of ten up to one.
ROUND_NUMBERS = [digit * 10.0**power for power in range(-5, 1) for digit in (1, 2, 5)]


def set_axes(*panels: Axes) -> None:
    """Make the axes of panels with one scale of errors logarithmic, with plain numbers."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    for panel in panels:
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.tick_params(length=3, width=0.8)
    for axis in (panels[0].yaxis, *(panel.xaxis for panel in panels)):
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    panels[0].yaxis.set_major_locator(FixedLocator(ROUND_NUMBERS))


def fitted_slope(points: Sequence[tuple[float, float]], least: float = 0.0) -> float:
    """Return the slope of a line through the logarithms of both coordinates, of points from `least` on."""
    used = [point for point in points if point[0] >= least]
    if len(used) < 2:
        return float("nan")
    x, y = np.log(np.array(used)).T
    return float(np.polyfit(x, y, 1)[0])
