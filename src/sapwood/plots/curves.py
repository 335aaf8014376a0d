"""Training curves: the series in training logs, and a picture of them.

The upper panel has the log-likelihood of the training trees by iteration, with a band for each cycle of splitting and
merging and the number of states the cycle ended with; the lower one, if there is anything to show, F1 on other trees.
Logs, and the members of an ensemble, are drawn over each other, each member from its own first iteration.
"""

from __future__ import annotations

import itertools
import math
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

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
# Up to this many iterations each is a dot.
_FEW = 60
_LONGEST_NAME = 48
_UNITS = ((3600.0, "hours of training"), (60.0, "minutes of training"), (1.0, "seconds of training"))


@dataclass(frozen=True)
class Cycle:
    """Where a cycle begins on the horizontal axis, and how many states there are at its end, if known."""

    number: int
    begin: float
    states: int | None


@dataclass(frozen=True)
class Curve:
    """What one training did.

    Attributes
    ----------
    log, member, name
        The name of the log, the member of the ensemble (if it is one), and what a legend says.
    x, log_likelihood
        The iterations; `None` where the likelihood was no finite number.
    cycles
        In their order; none, if the method has no cycles.
    f1_x, f1
        The evaluations. A curve that has these alone is the evaluation of a whole ensemble.
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
            "cycles": [{"cycle": cycle.number, "x": cycle.begin, "states": cycle.states} for cycle in self.cycles],
            "f1": {"x": self.f1_x, "y": self.f1},
        }


def make_curves(logs: Mapping[str, Events], *, x: XAxis = "step") -> list[Curve]:
    """Return the curves in the logs.

    Parameters
    ----------
    logs
        The lines of each log (see `sapwood.run.log.read_log`) by the name of its file.
    x
        What is on the horizontal axis: iterations, or the seconds since training began.

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
    # Should a step have been done twice, what counts is what was done last.
    iterations = {event["step"]: event for event in events if event["event"] == "iteration"}
    evaluations = {
        event["step"]: event for event in events if event["event"] == "dev" and _figure(event, "f1") is not None
    }
    steps = sorted(iterations)
    # The members of an ensemble that are trained one after the other are counted on, and drawn over each other.
    before = max(0, steps[0] - 1) if steps and member is not None else 0

    def place(event: Mapping[str, Any]) -> float:
        if x == "step":
            return event["step"] - before
        seconds = _figure(event, "seconds")
        if seconds is None:
            raise InputError(f"{log}: step {event['step']} has no seconds; draw it by step")
        return seconds

    places = [place(iterations[step]) for step in steps]
    cycles: dict[int, Cycle] = {}
    for index, step in enumerate(steps):
        number = iterations[step].get("cycle")
        if number is None:
            continue
        if number in cycles:
            begin = cycles[number].begin
        elif x == "step":
            begin = places[index] - 0.5
        else:
            begin = places[index - 1] if index else 0.0
        cycles[number] = Cycle(number, begin, iterations[step].get("states"))
    rated = sorted(evaluations)
    return Curve(
        log=log,
        member=member,
        name=name,
        x=places,
        log_likelihood=[_figure(iterations[step], "log_likelihood") for step in steps],
        cycles=list(cycles.values()),
        f1_x=[place(evaluations[step]) for step in rated],
        f1=[float(evaluations[step]["f1"]) for step in rated],
    )


def draw_curves(logs: Mapping[str, Events], path: str | Path, *, x: XAxis = "step", title: str = "") -> None:
    """Draw the curves in the logs.

    Parameters
    ----------
    logs, x
        As for `make_curves`.
    path
        The picture to write; its ending, one of `PICTURE_FORMATS`, says what kind it is.
    title
        What to write above it.
    """
    curves = make_curves(logs, x=x)
    save_picture(path, lambda: _figure_of(curves, x, title))


def _figure_of(curves: Sequence[Curve], x: XAxis, title: str) -> Figure:
    from matplotlib.figure import Figure

    places = [place for curve in curves if curve.x for place in (*curve.x, *curve.f1_x)]
    first, last = min(places), max(places)
    label = "iteration"
    if x == "seconds":
        unit, label = next(((unit, name) for unit, name in _UNITS if last >= 3 * unit), _UNITS[-1])
        curves = [_in_units(curve, unit) for curve in curves]
        last /= unit
    # Half an iteration before the first and after the last one; time begins when training does.
    begin = first - 0.5 if x == "step" else 0.0
    end = last + 0.5 if x == "step" else last * 1.01 or 1.0
    names = [_short(_printable(curve.name)) for curve in curves]
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
    _set_ticks(axes, x)
    _mark_cycles(axes, curves, begin, end)
    if rated:
        axes[1].set_ylabel("dev F1")
        if len(curves) == 1:
            _mark_best(axes[1], curves[0])
    figure.align_ylabels(axes)
    if title:
        figure.suptitle(_printable(title), fontsize=11)
    if len(curves) > 1:
        # The names come after: Matplotlib has ideas of its own about those that begin with an underscore.
        legend = figure.legend(
            lines, ["-"] * len(lines), loc="outside lower center", ncols=columns, frameon=False, handlelength=2.4
        )
        for text, name in zip(legend.get_texts(), names, strict=True):
            text.set_text(name)
    return figure


def _in_units(curve: Curve, unit: float) -> Curve:
    return replace(
        curve,
        x=[place / unit for place in curve.x],
        f1_x=[place / unit for place in curve.f1_x],
        cycles=[replace(cycle, begin=cycle.begin / unit) for cycle in curve.cycles],
    )


def _plot_curve(axes: Sequence[Axes], curve: Curve, index: int, of: int) -> Line2D:
    """Draw a curve in all panels and return the line for its entry in a legend."""
    from matplotlib.lines import Line2D

    look: dict[str, Any] = {
        "color": COLOURS[index % len(COLOURS)],
        "linestyle": _STYLES[index // len(COLOURS) % len(_STYLES)],
        "linewidth": 1.5 if of == 1 else 1.2,
    }
    if curve.x:
        dots: dict[str, Any] = {"marker": "o", "markersize": 2.5} if len(curve.x) <= _FEW else {}
        axes[0].plot(curve.x, _with_gaps(curve.log_likelihood), **look, **dots)
        if curve.f1:
            axes[1].plot(curve.f1_x, curve.f1, marker="o", markersize=3.5, clip_on=False, zorder=3, **look)
    else:
        look = {"color": "#000000", "linestyle": (0, (2, 2)), "linewidth": 1}
        axes[1].axhline(curve.f1[-1], **look)
    return Line2D([], [], **look)


def _with_gaps(values: Sequence[float | None]) -> list[float]:
    return [math.nan if value is None else value for value in values]


def _set_ticks(axes: Sequence[Axes], x: XAxis) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    def number(value: float, _: object) -> str:
        return f"{value:,.10g}".replace("-", "\u2212")

    for panel in axes:
        panel.yaxis.set_major_formatter(FuncFormatter(number))
        panel.xaxis.set_major_formatter(FuncFormatter(number))
        panel.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        panel.xaxis.set_major_locator(MaxNLocator(10, steps=[1, 2, 5, 10], integer=x == "step"))
        panel.tick_params(length=3, width=0.8)


def _mark_best(panel: Axes, curve: Curve) -> None:
    """Write the best F1 below its point."""
    best = max(range(len(curve.f1)), key=lambda index: curve.f1[index])
    panel.annotate(
        f"{curve.f1[best]:.2f}",
        (curve.f1_x[best], curve.f1[best]),
        (0, -6),
        textcoords="offset points",
        ha="right" if 2 * curve.f1_x[best] > sum(panel.get_xlim()) else "left",
        va="top",
        fontsize=8,
        color=_NOTE,
    )


def _mark_cycles(axes: Sequence[Axes], curves: Sequence[Curve], begin: float, end: float) -> None:
    """Put a band behind every other cycle, and above the bands number and states.

    Curves whose cycles begin at different places have a circle at the beginning of each instead.
    """
    bands = _common_cycles(curves)
    if bands is None:
        for line, curve in zip(axes[0].get_lines(), [curve for curve in curves if curve.x], strict=True):
            firsts = [min(bisect_right(curve.x, cycle.begin), len(curve.x) - 1) for cycle in curve.cycles]
            values = _with_gaps([curve.log_likelihood[first] for first in firsts])
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
            # A letter is about 1.1 % of the axis wide.
            if text and (len(text) + 1) * 0.011 * (end - begin) <= right - left:
                axes[0].annotate(text, ((left + right) / 2, 1), (0, height), above, ha="center", **look)
                rows[name] = height
    for name, height in rows.items():
        axes[0].annotate(name, (0, 1), (-6, height), "axes fraction", ha="right", **look)


def _common_cycles(curves: Sequence[Curve]) -> list[tuple[int, float, str]] | None:
    """Return number, beginning and states of each cycle; `None` if curves differ in where it begins."""
    cycles: dict[int, list[Cycle]] = {}
    for cycle in itertools.chain.from_iterable(curve.cycles for curve in curves):
        cycles.setdefault(cycle.number, []).append(cycle)
    bands: list[tuple[int, float, str]] = []
    for number, same in sorted(cycles.items()):
        if any(cycle.begin != same[0].begin for cycle in same) or (bands and same[0].begin <= bands[-1][1]):
            return None
        states = [cycle.states for cycle in same if cycle.states is not None]
        extremes = sorted({min(states), max(states)}) if states else []
        bands.append((number, same[0].begin, "\u2013".join(f"{count:,}" for count in extremes)))
    return bands


def _printable(text: str) -> str:
    """Return the text without what XML or UTF-8 cannot hold."""
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return re.sub("[\x00-\x08\x0b-\x1f\x7f\ufffe\uffff]", "\ufffd", text)


def _short(name: str) -> str:
    """Return a name that leaves room for the curves: its end is what differs."""
    return name if len(name) <= _LONGEST_NAME else "…" + name[1 - _LONGEST_NAME :]
