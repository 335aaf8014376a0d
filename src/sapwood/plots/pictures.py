"""What all pictures share: colours, settings, and writing them to a file.

Matplotlib is imported only to draw. Nothing of the user's settings for it gets into a picture, nor the time or a random
number: the same figures give the same bytes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapwood.errors import UsageError
from sapwood.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURE_FORMATS = ("svg", "png", "pdf")
# Okabe and Ito's colours, which people see apart however they see colours; the yellow is too pale for lines.
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
    # Letters, not outlines, in files that can hold them; names of parts that do not change from run to run.
    "svg.fonttype": "none",
    "svg.hashsalt": "sapwood",
    "pdf.fonttype": 42,
}


def picture_format(path: str | Path) -> str:
    """Return the format that the name of a picture ends in, if it can be written."""
    ending = Path(path).suffix[1:].lower()
    if ending not in PICTURE_FORMATS:
        raise UsageError(f"the name of a picture must end in .svg, .png or .pdf, and this one does not: {str(path)!r}")
    return ending


def check_matplotlib() -> None:
    """Raise a `UsageError` if there is nothing to draw with."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise UsageError("drawing needs Matplotlib: pip install matplotlib") from error


def save_picture(path: str | Path, make: Callable[[], Figure]) -> None:
    """Write the figure that `make` returns; the ending of the name, one of `PICTURE_FORMATS`, says what kind it is."""
    ending = picture_format(path)
    check_matplotlib()
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        # Of a script that the font lacks: boxes in a PNG or PDF, and as it should be in an SVG.
        warnings.filterwarnings("ignore", r"Glyph \d+")
        figure = make()
        date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[ending]
        with atomic_write(path) as stream:
            figure.savefig(stream, format=ending, metadata=date)
