"""Tree drawings in PNG and PDF with Matplotlib; SVG requires no package (`sapwood.trees.drawing.svg`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sapwood.errors import InputError
from sapwood.plots.pictures import save_picture
from sapwood.trees.drawing.layout import lay_out
from sapwood.trees.drawing.svg import INK, LABEL, LINE
from sapwood.trees.tree import Tree

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Pixels of a layout per inch and per point, and the maximum size in inches.
_INCH, _POINT = 96, 96 / 72
_LARGEST = 400


def draw_trees(trees: Tree | Sequence[Tree], path: str | Path) -> None:
    """Draw one or more trees below each other, in the format of the file name's suffix."""
    layouts = [lay_out(tree) for tree in ([trees] if isinstance(trees, Tree) else trees)]
    if not layouts:
        raise InputError("there is no tree to draw")
    width, height = max(layout.width for layout in layouts), sum(layout.height for layout in layouts)
    if max(width, height) > _LARGEST * _INCH:
        raise InputError(
            f"{len(layouts)} tree(s) make a picture of {width:.0f} times {height:.0f} pixels, which is too large; "
            "draw fewer trees, or write SVG"
        )

    def make() -> Figure:
        from matplotlib.collections import LineCollection
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width / _INCH, height / _INCH))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set(xlim=(0, width), ylim=(height, 0))
        lines = []
        top = 0.0
        for layout in layouts:
            size = layout.font_size
            for box in layout.boxes:
                y = top + box.y
                if box.parent >= 0:
                    above = layout.boxes[box.parent]
                    begin, turn, end = top + above.y + 0.72 * size, top + box.joint, y - 0.78 * size
                    lines.append([(above.x, begin), (above.x, turn), (box.x, turn), (box.x, end)])
                colour, weight = (INK, "normal") if box.is_word else (LABEL, "bold")
                font = {"size": size / _POINT, "color": colour, "weight": weight}
                axes.text(box.x, y, box.text, font, ha="center", va="center")
            top += layout.height
        axes.add_collection(LineCollection(lines, colors=LINE, linewidths=1))
        return figure

    save_picture(path, make)
