"""Style and output shared by all plots: colours, settings, and writing them to a file.

Matplotlib is imported only for drawing. Plots do not depend on the user's Matplotlib settings, the time or random
numbers: the same data give the same bytes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapwood.errors import UsageError
from sapwood.storage.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURE_FORMATS = ("svg", "png", "pdf")
# The colour-blind safe palette of Okabe and Ito, without yellow, which is too pale for lines.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
INK = "#404040"
_SETTINGS: Any = {
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
    "font.size": 9,
    "text.color": INK,
    "text.parse_math": False,
    "axes.edgecolor": "#9a9a9a",
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#dcdcdc",
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "lines.solid_capstyle": "round",
    "savefig.dpi": 160,
    # Text instead of outlines where the format allows it; element ids that do not change between runs.
    "svg.fonttype": "none",
    "svg.hashsalt": "sapwood",
    "pdf.fonttype": 42,
}


def picture_format(path: str | Path) -> str:
    """Return the format given by the suffix of a file name; raises `UsageError` if it is not supported."""
    ending = Path(path).suffix[1:].lower()
    if ending not in PICTURE_FORMATS:
        raise UsageError(f"the name of a picture must end in .svg, .png or .pdf, and this one does not: {str(path)!r}")
    return ending


def check_matplotlib() -> None:
    """Raise a `UsageError` if Matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise UsageError("drawing needs Matplotlib: pip install matplotlib") from error


def save_picture(path: str | Path, make: Callable[[], Figure]) -> None:
    """Write the figure that `make` returns in the format of the suffix, one of `PICTURE_FORMATS`."""
    ending = picture_format(path)
    check_matplotlib()
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        # Characters missing from the font: boxes in PNG and PDF, correct in SVG.
        warnings.filterwarnings("ignore", r"Glyph \d+")
        figure = make()
        date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[ending]
        with atomic_write(path) as stream:
            figure.savefig(stream, format=ending, metadata=date)
