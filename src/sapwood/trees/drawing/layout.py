"""Layout of a tree in a picture: coordinates only, drawing is up to the caller.

Words are in one row at the bottom, tags in the row above them, and a phrase is one row above the highest of its
children. Each subtree has a strip of its own, as wide as its widest label or as its children side by side, and a node
is centred over its children. So labels never touch, however long they are, and a line that goes straight up from a
node to just below its parent crosses nothing (`Box.joint`). Trees with gaps, whose lines must cross, are laid out by
`sapwood.trees.drawing.crossing`. A sentence is laid out from right to left if most of its
words are in a right-to-left script. The explorer draws trees by the same algorithm (`web/static/js/layout.js`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from sapwood.errors import InputError
from sapwood.trees.drawing.crossing import place_nodes
from sapwood.trees.drawing.terminal import printable
from sapwood.trees.tree import Tree

# Widths of characters relative to the font size, slightly above those of common sans-serif fonts.
_NARROW = dict.fromkeys("ijl.,:;'|!I`", 0.32) | dict.fromkeys('frt()[]{}/\\- "', 0.42)
_WIDE = dict.fromkeys("mwMW@%", 0.95) | dict.fromkeys("ABCDEFGHJKLNOPQRSTUVXYZ&#<>=+~", 0.74)
_USUAL = 0.6
# Maximum number of pixels in a picture.
_LARGEST = 400_000_000
_NO_LABEL = "·"
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]")


def text_width(text: str) -> float:
    """Estimate the width of a text in a sans-serif font, relative to the font size; errs on the wide side."""
    return sum(map(_char_width, text))


def _char_width(char: str) -> float:
    found = _NARROW.get(char) or _WIDE.get(char)
    if found is not None:
        return found
    if char.isascii():
        return _USUAL
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0.0
    return 1.35 if ord(char) >= 0x1F000 else 1.05 if unicodedata.east_asian_width(char) in "WF" else 0.78


@dataclass(frozen=True)
class Box:
    """A node or a word in a picture.

    Attributes
    ----------
    text
        The label or word.
    x, y
        Its centre.
    width
        Width of the text.
    node
        The number of the node in the order of `Tree.nodes`; for a word, that of its tag.
    is_word
        True for a word.
    start, end
        Its words are `start .. end - 1`, or some of these if it has gaps.
    parent
        The number of the box above, or -1.
    joint
        Height at which the line from the parent turns: across from the parent's `x` to the box's own, then down.
    """

    text: str
    x: float
    y: float
    width: float
    node: int
    is_word: bool
    start: int
    end: int
    parent: int
    joint: float


@dataclass(frozen=True)
class TreeLayout:
    """All boxes of a picture, parents before children, and its size; `crosses` is True if lines cross."""

    boxes: tuple[Box, ...]
    width: float
    height: float
    font_size: float
    row_height: float
    crosses: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the layout as plain JSON values."""
        return {**asdict(self), "boxes": [asdict(box) for box in self.boxes]}


class _Strip:
    """A subtree's strip: its width, the position of the node in it, and the node's height in rows above the words."""

    __slots__ = ("below", "centre", "height", "inset", "text", "text_width", "width", "word", "word_width", "words")

    def __init__(self, node: Tree, below: list[_Strip], measure: Callable[[str], float], gap: float) -> None:
        self.below = below
        self.text = printable(node.label) or _NO_LABEL
        self.text_width = measure(self.text)
        self.word = None if node.word is None else printable(node.word)
        if self.word is not None:
            self.word_width = measure(self.word)
            self.width = max(self.text_width, self.word_width) + gap
            self.centre, self.inset, self.height, self.words = self.width / 2, 0.0, 1, 1
            return
        self.word_width = 0.0
        inner = sum(strip.width for strip in below)
        middle = (below[0].centre + inner - below[-1].width + below[-1].centre) / 2
        half = (self.text_width + gap) / 2
        # A label wider than its children indents them.
        self.inset = max(0.0, half - middle)
        self.centre = middle + self.inset
        self.width = max(inner + self.inset, self.centre + half)
        self.height = 1 + max(strip.height for strip in below)
        self.words = sum(strip.words for strip in below)


def lay_out(
    tree: Tree,
    *,
    measure: Callable[[str], float] = text_width,
    font_size: float = 16.0,
    row_height: float = 2.6,
    gap: float = 0.9,
    margin: float = 1.0,
) -> TreeLayout:
    """Return the positions of a tree's nodes.

    Parameters
    ----------
    tree
        The tree. One whose picture would have more than 400 million pixels is refused.
    measure
        Function that returns the width of a text relative to the font size.
    font_size
        In pixels.
    row_height, gap, margin
        Distance between rows, minimum distance between texts, and margin, relative to the font size.

    Examples
    --------
    >>> layout = lay_out(Tree.parse("(NP (DT the) (NN dog))"))
    >>> [(box.text, round(box.y)) for box in layout.boxes]
    [('NP', 27), ('DT', 69), ('the', 110), ('NN', 69), ('dog', 110)]
    """
    if tree.has_gaps:
        return _lay_out_gaps(tree, measure, font_size, row_height, gap, margin)
    root = tree.fold(lambda node, below: _Strip(node, below, measure, gap))
    width = (root.width - gap + 2 * margin) * font_size
    height = (root.height * row_height + 1.4 + 2 * margin) * font_size
    _check_size(width * height, root.words, root.height)
    boxes: list[Box] = []
    mirrored = _is_mirrored(tree)

    def row(height: int) -> float:
        return ((root.height - height) * row_height + 0.7 + margin) * font_size

    # Each waiting strip has its left side, the box above it, its first word, and the height where its line turns.
    waiting = [(root, margin - gap / 2, -1, 0, 0.0)]
    nodes = 0
    while waiting:
        strip, left, parent, start, joint = waiting.pop()
        x, y = (left + strip.centre) * font_size, row(strip.height)
        x = width - x if mirrored else x
        number, end = len(boxes), start + strip.words
        size = strip.text_width * font_size
        boxes.append(Box(strip.text, x, y, size, nodes, False, start, end, parent, joint))
        if strip.word is not None:
            size = strip.word_width * font_size
            boxes.append(Box(strip.word, x, row(0), size, nodes, True, start, end, number, (y + row(0)) / 2))
        nodes += 1
        turn = y + row_height * font_size / 2
        left += strip.inset
        children = []
        for child in strip.below:
            children.append((child, left, number, start, turn))
            left += child.width
            start += child.words
        waiting.extend(reversed(children))
    return TreeLayout(tuple(boxes), width, height, font_size, row_height * font_size)


def _check_size(pixels: float, words: int, levels: int) -> None:
    if pixels > _LARGEST:
        raise InputError(
            f"a tree of {words} words and {levels} levels is too large for a picture; write brackets instead"
        )


def _is_mirrored(tree: Tree) -> bool:
    """Return whether most words are in a right-to-left script."""
    words = tree.words()
    return sum(_RIGHT_TO_LEFT.search(word) is not None for word in words) > len(words) / 2


def _lay_out_gaps(
    tree: Tree, measure: Callable[[str], float], font_size: float, row_height: float, gap: float, margin: float
) -> TreeLayout:
    """Return the positions of the nodes of a tree with gaps; parameters as for `lay_out`."""

    def shown(text: str) -> float:
        return measure(printable(text) or _NO_LABEL)

    places, columns = place_nodes(tree, shown, gap)
    highest = max(place.row for place in places)
    width = (columns - gap + 2 * margin) * font_size
    height = (highest * row_height + 1.4 + 2 * margin) * font_size
    _check_size(width * height, len(tree), highest)
    mirrored = _is_mirrored(tree)

    def row(number: int) -> float:
        return ((highest - number) * row_height + 0.7 + margin) * font_size

    boxes: list[Box] = []
    # The box of each node.
    numbers: list[int] = []
    for node, place in enumerate(places):
        x = (margin - gap / 2 + place.x) * font_size
        x, y = width - x if mirrored else x, row(place.row)
        above = -1 if place.parent < 0 else numbers[place.parent]
        joint = 0.0 if above < 0 else boxes[above].y + row_height * font_size / 2
        numbers.append(len(boxes))
        text = printable(place.node.label) or _NO_LABEL
        boxes.append(Box(text, x, y, measure(text) * font_size, node, False, place.start, place.end, above, joint))
        if place.node.word is not None:
            text = printable(place.node.word)
            size, number = measure(text) * font_size, len(boxes) - 1
            boxes.append(Box(text, x, row(0), size, node, True, place.start, place.end, number, (y + row(0)) / 2))
    return TreeLayout(tuple(boxes), width, height, font_size, row_height * font_size, crosses=True)
