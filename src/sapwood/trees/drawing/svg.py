"""SVG pictures of trees, as text: without dependencies and external resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from sapwood.trees.drawing.layout import Box, TreeLayout, lay_out
from sapwood.trees.drawing.terminal import printable
from sapwood.trees.tree import Tree

_FONTS = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
INK, LABEL, LINE = "#1f2933", "#0b5394", "#8a97a6"
# Phrases with a lower probability than this have a darker background.
_SHADE = "#d9731a"
# Not allowed in XML, even as a character reference.
_FORBIDDEN = dict.fromkeys([*range(32), 0xFFFE, 0xFFFF, *range(0xD800, 0xE000)], "\ufffd")


def format_svg(trees: Tree | Sequence[Tree], *, confidences: Iterable[tuple[int, int, str, float]] = ()) -> str:
    """Return a picture of a tree, or of several below each other.

    Parameters
    ----------
    trees
        The tree or trees to draw.
    confidences
        `(start, end, label, probability)` of phrases and tags of the first tree, as in `ParseResult.marginals`: the
        less probable, the darker the background of the label; the number appears on hover.
    """
    some = [trees] if isinstance(trees, Tree) else list(trees)
    sure = {(start, end, label): probability for start, end, label, probability in confidences}
    drawn = [(tree, lay_out(tree)) for tree in some]
    width = max((layout.width for _, layout in drawn), default=0.0)
    height = sum(layout.height for _, layout in drawn)
    size = f'width="{width:.0f}" height="{height:.0f}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
        f'<rect {size} fill="#ffffff"/>',
    ]
    top = 0.0
    for tree, layout in drawn:
        font = f'font-family="{_FONTS}" font-size="{layout.font_size:g}" text-anchor="middle"'
        parts.append(f'<g transform="translate(0 {top:.1f})" {font}>')
        parts.append(f"<title>{_safe(str(tree))}</title>")
        parts.extend(_elements(layout, sure))
        parts.append("</g>")
        top += layout.height
        sure = {}
    return "\n".join([*parts, "</svg>"]) + "\n"


def _elements(layout: TreeLayout, sure: Mapping[tuple[int, int, str], float]) -> Iterable[str]:
    boxes = layout.boxes
    # The lines to the children of each box. Where lines cross, those of a higher box interrupt those of a lower one.
    lines: dict[int, list[str]] = {0: []}
    for box in boxes:
        if box.parent >= 0:
            above = boxes[box.parent]
            key = box.parent if layout.crosses else 0
            lines.setdefault(key, []).append(_line(above, box, layout.font_size))
    for key in sorted(lines, key=lambda number: -boxes[number].y):
        strokes = [("#ffffff", 6), (LINE, 1.2)] if layout.crosses else [(LINE, 1.2)]
        for colour, width in strokes:
            path = f'd="{" ".join(lines[key])}" fill="none"'
            yield f'<path {path} stroke="{colour}" stroke-width="{width}" stroke-linejoin="round"/>'
    for box in boxes:
        probability = None if box.is_word else sure.get((box.start, box.end, box.text))
        half = layout.font_size * 0.78
        if probability is not None and probability < 0.995:
            yield (
                f'<rect x="{box.x - box.width / 2 - 5:.1f}" y="{box.y - half:.1f}" width="{box.width + 10:.1f}" '
                f'height="{2 * half:.1f}" rx="5" fill="{_SHADE}" fill-opacity="{0.75 * (1 - probability):.2f}"/>'
            )
        style = f'fill="{INK}"' if box.is_word else f'fill="{LABEL}" font-weight="600"'
        hint = "" if probability is None else f"<title>{_safe(box.text)}: {probability:.3f}</title>"
        yield f'<text x="{box.x:.1f}" y="{box.y + 0.35 * layout.font_size:.1f}" {style}>{hint}{_safe(box.text)}</text>'


def _line(above: Box, box: Box, size: float) -> str:
    """Return the line from a parent down to a child: across at the joint, with a round corner, then down."""
    top, bottom = above.y + 0.72 * size, box.y - 0.78 * size
    if box.is_word:
        return f"M{box.x:.1f} {top:.1f}V{bottom:.1f}"
    corner = min(0.4 * size, abs(box.x - above.x), bottom - box.joint)
    if corner < 0.5:
        return f"M{above.x:.1f} {top:.1f}V{box.joint:.1f}H{box.x:.1f}V{bottom:.1f}"
    side = corner if box.x > above.x else -corner
    return (
        f"M{above.x:.1f} {top:.1f}V{box.joint:.1f}H{box.x - side:.1f}"
        f"Q{box.x:.1f} {box.joint:.1f} {box.x:.1f} {box.joint + corner:.1f}V{bottom:.1f}"
    )


def _safe(text: str) -> str:
    return escape(printable(text).translate(_FORBIDDEN), quote=False)
