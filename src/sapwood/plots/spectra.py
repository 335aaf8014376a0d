"""Plot of singular values: the number of hidden states that the data of each symbol support."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapwood.errors import InputError
from sapwood.plots.pictures import COLOURS, save_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Records = Sequence[Mapping[str, Any]]


def most_frequent(records: Records, top: int = 12) -> Records:
    """Return the records (`symbol`, `count`, `states`, `singular_values`) of the most frequent symbols."""
    if not records:
        raise InputError("the model has no singular values: only models made by spectral learning have them")
    return sorted(records, key=lambda record: -record["count"])[:top]


def draw_spectra(records: Records, path: str | Path, *, title: str = "", top: int = 12) -> None:
    """Draw the singular values of the most frequent symbols, each relative to its largest; dots are kept states."""
    chosen = most_frequent(records, top)
    save_picture(path, lambda: _figure_of(chosen, title))


def _figure_of(records: Records, title: str) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullFormatter

    columns = min(4, len(records))
    rows = -(-len(records) // columns)
    figure = Figure(figsize=(2.1 * columns + 0.6, 1.55 * rows + 0.7), layout="constrained")
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for panel in panels.ravel()[len(records) :]:
        panel.set_visible(False)
    for panel, record in zip(panels.ravel(), records, strict=False):
        values = [value / record["singular_values"][0] for value in record["singular_values"]]
        places = range(1, len(values) + 1)
        kept = min(record["states"], len(values))
        panel.plot(places, values, color=COLOURS[0], linewidth=1.2)
        panel.plot(places[:kept], values[:kept], "o", color=COLOURS[0], markersize=2.6)
        panel.set_yscale("log")
        panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        panel.yaxis.set_minor_formatter(NullFormatter())
        panel.set_title(f"{record['symbol']}  {record['count']:,}", fontsize=8, loc="left")
    figure.supxlabel("number of the singular value; dots: states kept", fontsize=9)
    figure.supylabel("share of the largest", fontsize=9)
    if title:
        figure.suptitle(title, fontsize=10)
    return figure
