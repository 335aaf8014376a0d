"""Axes of pictures in which errors fall along straight lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# 1, 2 and 5 times the powers of ten up to one.
ROUND_NUMBERS = [digit * 10.0**power for power in range(-5, 1) for digit in (1, 2, 5)]


def set_axes(left: Axes, right: Axes) -> None:
    """Make the axes of two panels with one scale of errors logarithmic, with plain numbers."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    for panel in (left, right):
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.tick_params(length=3, width=0.8)
    for axis in (left.xaxis, left.yaxis, right.xaxis):
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    left.yaxis.set_major_locator(FixedLocator(ROUND_NUMBERS))
