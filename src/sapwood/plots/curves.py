"""Training curves: the series in training logs, and their plot.

The upper panel shows the log-likelihood of the training trees by iteration, with a band for each split-merge cycle and
its final number of states; the lower panel, if any, F1 on the development set. Logs, and the members of an ensemble,
share the axes, each member starting from its own first iteration.
"""

from __future__ import annotations

import itertools
import math
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from sapwood.errors import InputError
from sapwood.plots.pictures import COLOURS, save_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

XAxis = Literal["step", "seconds"]
Events = Sequence[Mapping[str, Any]]
_STYLES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)))
_BAND = "#f1f1ee"
_NOTE = "#6b6b6b"
# Maximum number of iterations that are drawn as dots.
_FEW = 60
_LONGEST_NAME = 48
_UNITS = ((3600.0, "hours of training"), (60.0, "minutes of training"), (1.0, "seconds of training"))


class Cycle(NamedTuple):
    """The number of a cycle, its start on the horizontal axis, and its final number of states, if known."""

    cycle: int
    x: float
    states: int | None


@dataclass(frozen=True)
class Curve:
    """The curve of one training.

    Attributes
    ----------
    log, member, name
        Name of the log, number of the ensemble member (if any), and name in the legend.
    x, log_likelihood
        The iterations; `None` where the likelihood was not finite.
    cycles
        The cycles in order; empty if the method has none.
    f1_x, f1
        The evaluations. A curve with evaluations only is that of a whole ensemble.
    """

    log: str
    member: int | None
    name: str
    x: list[float]
    log_likelihood: list[float | None]
    cycles: list[Cycle]
    f1_x: list[float]
    f1: list[float]

    def to_dict(self) -> dict[str, Any]:
        """Return the curve as plain JSON values."""
        return {
            "log": self.log,
            "member": self.member,
            "name": self.name,
            "log_likelihood": {"x": self.x, "y": self.log_likelihood},
            "cycles": [cycle._asdict() for cycle in self.cycles],
            "f1": {"x": self.f1_x, "y": self.f1},
        }

    def in_units(self, unit: float) -> Curve:
        """Return the curve with its horizontal axis divided by a unit."""
        cycles = [cycle._replace(x=cycle.x / unit) for cycle in self.cycles]
        return replace(self, x=[x / unit for x in self.x], f1_x=[x / unit for x in self.f1_x], cycles=cycles)


def make_curves(logs: Mapping[str, Events], *, x: XAxis = "step") -> list[Curve]:
    """Return the curves in the logs.

    Parameters
    ----------
    logs
        The lines of each log (see `sapwood.runtime.log.read_log`) by the name of its file.
    x
        Horizontal axis: iterations, or seconds since the start of training.

    Raises
    ------
    InputError
        If there is nothing to draw in one of the logs.
    """
    stems = [Path(name).stem for name in logs]
    curves = []
    for name, events in logs.items():
        if not events:
            raise InputError(f"{name}: the log is empty")
        if not any(_figure(event, "log_likelihood") is not None for event in events if event["event"] == "iteration"):
            raise InputError(f"{name}: the log has no iterations with a log-likelihood, so there is nothing to draw")
        title = Path(name).stem if stems.count(Path(name).stem) == 1 else name
        members = {event.get("member") for event in events if event["event"] in ("iteration", "dev")}
        for member in sorted(members, key=lambda member: math.inf if member is None else member):
            legend = title
            if len(members) > 1:
                part = "all members" if member is None else f"member {member}"
                legend = part if len(logs) == 1 else f"{title}, {part}"
            own = [event for event in events if event.get("member") == member]
            curve = _make_curve(name, member, legend, own, x)
            if curve.x or curve.f1:
                curves.append(curve)
    return curves


def _figure(event: Mapping[str, Any], name: str) -> float | None:
    value = event.get(name)
    return float(value) if value is not None and math.isfinite(value) else None


def _make_curve(log: str, member: int | None, name: str, events: Events, x: XAxis) -> Curve:
    # If a step was done twice, the last one counts.
    last = {(event["event"], event["step"]): event for event in events}
    iterations = [last[key] for key in sorted(last) if key[0] == "iteration"]
    evaluations = [last[key] for key in sorted(last) if key[0] == "dev" and _figure(last[key], "f1") is not None]
    # Steps of members trained in sequence are counted on; each member is shifted back to its own start.
    before = max(0, iterations[0]["step"] - 1) if iterations and member is not None else 0

    def place(event: Mapping[str, Any]) -> float:
        if x == "step":
            return event["step"] - before
        seconds = _figure(event, "seconds")
        if seconds is None:
            raise InputError(f"{log}: step {event['step']} has no seconds; draw it by step")
        return seconds

    places = [place(event) for event in iterations]
    starts = [x - 0.5 for x in places] if x == "step" else [0.0, *places]
    cycles: dict[int, Cycle] = {}
    for event, start in zip(iterations, starts, strict=False):
        if (number := event.get("cycle")) is not None:
            first = cycles.get(number, Cycle(number, start, None))
            cycles[number] = first._replace(states=event.get("states"))
    return Curve(
        log=log,
        member=member,
        name=name,
        x=places,
        log_likelihood=[_figure(event, "log_likelihood") for event in iterations],
        cycles=list(cycles.values()),
        f1_x=[place(event) for event in evaluations],
        f1=[float(event["f1"]) for event in evaluations],
    )


def draw_curves(logs: Mapping[str, Events], path: str | Path, *, x: XAxis = "step", title: str = "") -> None:
    """Draw the curves in the logs.

    Parameters
    ----------
    logs, x
        As for `make_curves`.
    path
        Output file; its suffix, one of `PICTURE_FORMATS`, determines the format.
    title
        Title of the plot.
    """
    curves = make_curves(logs, x=x)
    save_picture(path, lambda: _figure_of(curves, x, title))


def _figure_of(curves: Sequence[Curve], x: XAxis, title: str) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    places = [place for curve in curves if curve.x for place in (*curve.x, *curve.f1_x)]
    # Margins of half an iteration; time starts at 0.
    label, begin, end = "iteration", min(places) - 0.5, max(places) + 0.5
    if x == "seconds":
        unit, label = next((each for each in _UNITS if max(places) >= 3 * each[0]), _UNITS[-1])
        curves = [curve.in_units(unit) for curve in curves]
        begin, end = 0.0, max(places) / unit * 1.01 or 1.0
    names = [_printable(curve.name) for curve in curves]
    names = [name if len(name) <= _LONGEST_NAME else "…" + name[1 - _LONGEST_NAME :] for name in names]
    columns = max(1, 100 // (max(map(len, names)) + 8))

    rated = any(curve.f1 for curve in curves)
    height = (5.4 if rated else 3.8) + (0.2 * math.ceil(len(names) / columns) if len(names) > 1 else 0)
    figure = Figure(figsize=(8, height), layout="constrained")
    ratios = [3, 2] if rated else [1]
    axes: list[Axes] = list(figure.subplots(len(ratios), sharex=True, squeeze=False, height_ratios=ratios)[:, 0])
    lines = [_plot_curve(axes, curve, index, len(curves)) for index, curve in enumerate(curves)]
    axes[0].set_ylabel("log-likelihood")
    axes[-1].set_xlabel(label)
    axes[0].set_xlim(begin, end)
    numbers = FuncFormatter(lambda value, _: f"{value:,.10g}".replace("-", "\u2212"))
    for panel in axes:
        panel.yaxis.set_major_formatter(numbers)
        panel.xaxis.set_major_formatter(numbers)
        panel.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        panel.xaxis.set_major_locator(MaxNLocator(10, steps=[1, 2, 5, 10], integer=x == "step"))
        panel.tick_params(length=3, width=0.8)
    _mark_cycles(axes, curves, begin, end)
    if rated:
        axes[1].set_ylabel("dev F1")
        if len(curves) == 1:
            _mark_best(axes[1], curves[0])
    figure.align_ylabels(axes)
    if title:
        figure.suptitle(_printable(title), fontsize=11)
    if len(curves) > 1:
        # Names are set afterwards: Matplotlib hides those that start with an underscore.
        look: dict[str, Any] = {"ncols": columns, "frameon": False, "handlelength": 2.4}
        legend = figure.legend(lines, ["-"] * len(lines), loc="outside lower center", **look)
        for text, name in zip(legend.get_texts(), names, strict=True):
            text.set_text(name)
    return figure


def _plot_curve(axes: Sequence[Axes], curve: Curve, index: int, of: int) -> Line2D:
    """Draw a curve in all panels and return its line for the legend."""
    from matplotlib.lines import Line2D

    style, colour = divmod(index, len(COLOURS))
    look: dict[str, Any] = {"color": COLOURS[colour], "linestyle": _STYLES[style % len(_STYLES)]}
    look["linewidth"] = 1.5 if of == 1 else 1.2
    if curve.x:
        dots: dict[str, Any] = {"marker": "o", "markersize": 2.5} if len(curve.x) <= _FEW else {}
        axes[0].plot(curve.x, np.array(curve.log_likelihood, float), **look, **dots)
        if curve.f1:
            axes[1].plot(curve.f1_x, curve.f1, marker="o", markersize=3.5, clip_on=False, zorder=3, **look)
    else:
        look = {"color": "#000000", "linestyle": (0, (2, 2)), "linewidth": 1}
        axes[1].axhline(curve.f1[-1], **look)
    return Line2D([], [], **look)


def _mark_best(panel: Axes, curve: Curve) -> None:
    """Write the best F1 below its point."""
    best, place = max(zip(curve.f1, curve.f1_x, strict=True), key=lambda pair: pair[0])
    look: dict[str, Any] = {"va": "top", "fontsize": 8, "color": _NOTE}
    side = "right" if 2 * place > sum(panel.get_xlim()) else "left"
    panel.annotate(f"{best:.2f}", (place, best), (0, -6), textcoords="offset points", ha=side, **look)


def _mark_cycles(axes: Sequence[Axes], curves: Sequence[Curve], begin: float, end: float) -> None:
    """Shade every other cycle, and label all with their number and states.

    Curves whose cycles start at different places get a circle at each start instead.
    """
    bands = _common_cycles(curves)
    if bands is None:
        for line, curve in zip(axes[0].get_lines(), [curve for curve in curves if curve.x], strict=True):
            firsts = [min(bisect_right(curve.x, cycle.x), len(curve.x) - 1) for cycle in curve.cycles]
            values = np.array([curve.log_likelihood[first] for first in firsts], float)
            look: dict[str, Any] = {"color": line.get_color(), "markerfacecolor": "white", "markersize": 4.5}
            axes[0].plot([curve.x[first] for first in firsts], values, "o", **look)
        axes[0].set_title("circles: a cycle begins", loc="right", fontsize=8, color=_NOTE)
        return
    look = {"fontsize": 8, "color": _NOTE, "va": "bottom", "textcoords": "offset points"}
    above = axes[0].get_xaxis_transform()
    rows = {}
    for index, (number, left, states) in enumerate(bands):
        right = bands[index + 1][1] if index + 1 < len(bands) else end
        if index % 2 == 0:
            for panel in axes:
                panel.axvspan(left, right, color=_BAND, linewidth=0, zorder=0)
        for name, text, height in (("cycle", f"{number}", 15), ("states", states, 4)):
            # A letter takes about 1.1 % of the axis.
            if text and (len(text) + 1) * 0.011 * (end - begin) <= right - left:
                axes[0].annotate(text, ((left + right) / 2, 1), (0, height), above, ha="center", **look)
                rows[name] = height
    for name, height in rows.items():
        axes[0].annotate(name, (0, 1), (-6, height), "axes fraction", ha="right", **look)


def _common_cycles(curves: Sequence[Curve]) -> list[tuple[int, float, str]] | None:
    """Return number, start and states of each cycle; `None` if its start differs between curves."""
    cycles = sorted({cycle[:2] for curve in curves for cycle in curve.cycles})
    if any(number == other or left >= right for (number, left), (other, right) in itertools.pairwise(cycles)):
        return None
    bands = []
    for number, start in cycles:
        same = [cycle.states for curve in curves for cycle in curve.cycles if cycle.cycle == number]
        states = [count for count in same if count is not None]
        extremes = sorted({min(states), max(states)}) if states else []
        bands.append((number, start, "\u2013".join(f"{count:,}" for count in extremes)))
    return bands


def _printable(text: str) -> str:
    """Return the text without characters that XML or UTF-8 cannot represent."""
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return re.sub("[\x00-\x08\x0b-\x1f\x7f\ufffe\uffff]", "\ufffd", text)
